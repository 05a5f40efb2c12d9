package main

import (
	"bytes"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// soon waits until a condition is true.
func soon(t *testing.T, what string, f func() bool) {
	t.Helper()
	for limit := time.Now().Add(20 * time.Second); !f(); time.Sleep(20 * time.Millisecond) {
		if time.Now().After(limit) {
			t.Fatalf("never: %s", what)
		}
	}
}

// A published disk is one whose size changes in the target.
type published struct {
	socket, export string
}

// sized reports whether a new client is offered a disk of that size.
func (p published) sized(t *testing.T, size int64) func() bool {
	return func() bool {
		n := dialNBD(t, p.socket, p.export)
		defer n.c.Close()
		return n.size == size
	}
}

// wantErrno checks the result of writing a block at an offset; 0: success.
func (n *nbdClient) wantErrno(t *testing.T, off int64, want nbdErrno) {
	t.Helper()
	err := n.do(nbdWrite, off, make([]byte, 4096))
	var got nbdErrno
	if err != nil && !errors.As(err, &got) || got != want {
		t.Errorf("a write at %d: %v, want errno %d", off, err, want)
	}
}

// grow enlarges the target's namespace 2 from 8 MiB to 16, and checks what old and new clients of the disk see, one of
// them under load. Stores cannot shrink.
func (p published) grow(t *testing.T) {
	t.Helper()
	l := startLoad(dialNBD(t, p.socket, p.export))
	l.more(t, 20)
	before := dialNBD(t, p.socket, p.export)
	command(t, words("namespace set 2 --size 16MiB -n "+testNQN)...).want(t, 0)
	soon(t, "16 MiB", p.sized(t, 16<<20))
	after := dialNBD(t, p.socket, p.export)
	after.wantErrno(t, 12<<20, 0)
	after.wantErrno(t, 16<<20, nbdENOSPC)
	before.wantErrno(t, 4<<20, 0)
	before.wantErrno(t, 12<<20, 0) // although it was offered 8 MiB
	before.wantErrno(t, 16<<20, nbdENOSPC)
	l.more(t, 20)
	l.end(t)
}

// TestAttachResized enlarges a namespace in the target, removes it, and puts another in its place, while clients of
// attach use that disk and others.
func TestAttachResized(t *testing.T) {
	beside(t)
	s := startConfigured(t, testConfig)
	s.out.await(t, "nvme connect")
	a := startAttach(t, s.testTarget)
	p := published{a.socket, "2"}
	p.grow(t)

	other, l := dialNBD(t, a.socket, "2"), startLoad(dialNBD(t, a.socket, "1"))
	l.more(t, 20)
	command(t, words("namespace remove 2 -n "+testNQN)...).want(t, 0)
	other.wantErrno(t, 0, nbdEIO)
	soon(t, "export 2 is gone", func() bool { return !offered(t, a.socket, "2") })
	command(t, append(words("namespace add 2 --size 2MiB -n "+testNQN), "--file", filepath.Join(s.dir, "new.img"))...).want(t, 0)
	soon(t, "export 2 is back", func() bool { return offered(t, a.socket, "2") })
	again := dialNBD(t, a.socket, "2")
	if again.size != 2<<20 {
		t.Errorf("it comes back with %d bytes", again.size)
	}
	again.wantErrno(t, 1<<20, 0)
	other.wantErrno(t, 0, nbdEIO) // it is another namespace
	l.more(t, 20)
	l.end(t)
	if !offered(t, a.socket, "") {
		t.Error("there is no default export")
	}
	command(t, words("namespace remove 1 -n "+testNQN)...).want(t, 0)
	soon(t, "the default export is gone, and no other one", func() bool { return !offered(t, a.socket, "") })
	dialNBD(t, a.socket, "2").wantErrno(t, 0, 0)
	a.finish(t)
}

// TestAttachWaits checks that a namespace whose store the target waits for is published when it is ready, and
// announced. If nothing else is wanted, attach waits for it, says so after a moment, and has no socket before.
func TestAttachWaits(t *testing.T) {
	beside(t)
	s := startConfigured(t, strings.Replace(testConfig, "disk.img, size: 8MiB}", "late.img}", 1))
	s.out.await(t, "nvme connect")
	all := startAttach(t, s.testTarget)
	all.errOut.await(t, "namespace 2: namespace is not ready: the target waits")
	socket := filepath.Join(t.TempDir(), "s")
	line := []string{"attach", "-a", s.addr, "-n", testNQN, "--socket", socket, "--namespace-id"}
	command(t, append(line, "7")...).want(t, exitUsage, "the subsystem has: 1, 2")
	given := startCommand(t, append(line, "2")...)
	given.errOut.await(t, "namespace 2: namespace is not ready: the target waits for its store; still waiting\n")
	if _, err := os.Lstat(socket); !os.IsNotExist(err) {
		t.Errorf("the socket is there before its export: %v", err)
	}
	given.stop()
	given.wantEnd(exitInterrupted)
	one := startCommand(t, append(line, "2")...)
	one.errOut.await(t, "; still waiting\n")
	if err := os.WriteFile(filepath.Join(s.dir, "late.img"), make([]byte, 8<<20), 0o600); err != nil {
		t.Fatal(err)
	}
	one.out.await(t, "nbd-client")
	dialNBD(t, socket, "2").wantErrno(t, 0, 0)
	all.out.await(t, "namespace 2, 8388608 bytes")
	dialNBD(t, all.socket, "2").wantErrno(t, 4096, 0)
	if reported := all.out.String(); strings.Count(reported, "namespace 1,") != 1 {
		t.Errorf("the other one is reported again:\n%s", reported)
	}
	one.stop()
	one.wantEnd(0)
	all.finish(t)
}

// TestConnectResized checks the same for the disks that connect publishes.
func TestConnectResized(t *testing.T) {
	beside(t)
	s := startConfigured(t, testConfig)
	s.out.await(t, "nvme connect")
	c := startCommand(t, s.at("connect", "-n", testNQN)...)
	c.errOut.await(t, "nvmeof: nvme0n2: published at ")
	published{filepath.Join(runDirOf(t), "nvme0n2.sock"), "nvme0n2"}.grow(t)
	command(t, "list").want(t, 0, " /  16.78  MB      4 KiB")
	c.stop()
	c.wantEnd(0)
}

// TestAttachTrim checks that a client's trim frees space in the target's file, if that is thin.
func TestAttachTrim(t *testing.T) {
	beside(t)
	s := startConfigured(t, strings.Replace(testConfig, "size: 8MiB}", "size: 8MiB, thin: true}", 1))
	s.out.await(t, "nvme connect")
	a := startAttach(t, s.testTarget)
	n := dialNBD(t, a.socket, "2")
	used := func() int64 {
		var st unix.Stat_t
		if err := unix.Stat(filepath.Join(s.dir, "disk.img"), &st); err != nil {
			t.Fatal(err)
		}
		return st.Blocks * 512
	}
	whole := bytes.Repeat([]byte{0xa5}, 8<<20)
	if err := errors.Join(n.do(nbdWrite, 0, whole), n.do(nbdFlush, 0, nil)); err != nil {
		t.Fatal(err)
	}
	before := used()
	if err := n.all([]nbdRequest{{command: nbdTrim, off: 1 << 20, length: 4 << 20}}); err != nil {
		t.Fatal(err)
	}
	if after := used(); before-after != 4<<20 {
		t.Errorf("the file took %d bytes, and takes %d after a trim of 4 MiB", before, after)
	}
	got := make([]byte, len(whole))
	clear(whole[1<<20 : 5<<20])
	if err := n.do(nbdRead, 0, got); err != nil || !bytes.Equal(got, whole) {
		t.Errorf("something else is read, or %v", err)
	}
	a.finish(t)
	if b, err := os.ReadFile(filepath.Join(s.dir, "disk.img")); err != nil || !bytes.Equal(b, whole) {
		t.Errorf("something else is in the file, or %v", err)
	}
}

// TestCounters checks that attach and connect report their clients' statistics on SIGUSR1 and at the end.
func TestCounters(t *testing.T) {
	inOwnRunDir(t)
	s := startConfigured(t, testConfig)
	s.out.await(t, "nvme connect")
	ask := func() {
		t.Helper()
		if err := unix.Kill(os.Getpid(), unix.SIGUSR1); err != nil {
			t.Fatal(err)
		}
	}
	a := startAttach(t, s.testTarget)
	n := dialNBD(t, a.socket, "2")
	n.wantErrno(t, 0, 0)
	n.wantErrno(t, 64<<20, nbdENOSPC)
	ask()
	a.errOut.await(t, "nvmeof: nbd: clients: 1; requests: 2; refused: 1\n")
	n.wantErrno(t, 0, 0)
	_ = n.c.Close()
	gone := "nvmeof: nbd: clients: 1; requests: 3; refused: 1; clients gone without disconnecting: 1\n"
	for end := time.Now().Add(20 * time.Second); !strings.Contains(a.errOut.String(), gone) && time.Now().Before(end); time.Sleep(20 * time.Millisecond) {
		ask()
	}
	a.finish(t)
	if reported := a.errOut.String(); strings.Count(reported, gone) < 2 || !strings.HasSuffix(reported, gone) {
		t.Errorf("on SIGUSR1 and at its end it said\n%s, not %s", reported, gone)
	}

	c := startCommand(t, s.at("connect", "-n", testNQN)...)
	c.errOut.await(t, "nvmeof: nvme0n2: published at ")
	ask()
	c.errOut.await(t, "nvmeof: nvme0n1: clients: 0; requests: 0\nnvmeof: nvme0n2: clients: 0; requests: 0\n")
	c.stop()
	c.wantEnd(0, "nvmeof: nvme0n2: no longer published; clients: 0; requests: 0\n")
}
