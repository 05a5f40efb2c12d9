package main

import (
	"context"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"
)

// attached is a running attach command.
type attached struct {
	socket      string
	out, errOut *output
	stop        context.CancelFunc
	ended       chan error
}

func startAttach(t *testing.T, s *testTarget, more ...string) *attached {
	t.Helper()
	a := &attached{socket: filepath.Join(t.TempDir(), "s"), out: newOutput(), errOut: newOutput()}
	a.stop, a.ended = begin(t, a.out, a.errOut, append([]string{"attach", "-a", s.addr, "-n", testNQN, "--socket", a.socket}, more...)...)
	t.Cleanup(a.stop)
	a.out.await(t, "nbd-client")
	return a
}

// qemuIO runs commands of qemu-io on an export.
func (a *attached) qemuIO(export string, commands ...string) (string, error) {
	args := []string{"-f", "raw", "nbd+unix:///" + export + "?socket=" + a.socket}
	for _, c := range commands {
		args = append(args, "-c", c)
	}
	out, err := exec.Command("qemu-io", args...).CombinedOutput()
	return string(out), err
}

func TestAttach(t *testing.T) {
	s := startTarget(t, "--export", "mem:8MiB", "--export", "mem:4MiB,bs=4096", "--allow-any-host")
	a := startAttach(t, s)
	for _, want := range []string{"namespace 1, 8388608 bytes", "namespace 2, 4194304 bytes"} {
		a.out.await(t, want)
	}
	// Clients that reconnect by UUID find that namespace, or none.
	printed := regexp.MustCompile(`UUID (\S+): nbd\+unix:///(\S+)\?socket=`+a.socket).FindAllStringSubmatch(a.out.String(), -1)
	if len(printed) != 2 || printed[0][1] != printed[0][2] || printed[1][1] != printed[1][2] || printed[0][1] == printed[1][1] {
		t.Fatalf("%q of\n%s", printed, a.out)
	}
	for _, want := range []string{"--uri='nbd+unix:///" + printed[0][1] + "?socket=" + a.socket, "-N " + printed[0][1] + " /dev/nbd0"} {
		a.out.await(t, want)
	}
	c, err := net.Dial("unix", a.socket)
	if err != nil {
		t.Fatal(err)
	}
	var greeting [18]byte
	if _, err := io.ReadFull(c, greeting[:]); err != nil || string(greeting[:8]) != "NBDMAGIC" {
		t.Errorf("greeting %q, %v", greeting, err)
	}
	_ = c.Close()
	t.Run("qemu-io", func(t *testing.T) {
		if _, err := exec.LookPath("qemu-io"); err != nil {
			t.Skip("qemu-io (Debian's qemu-utils) is not installed")
		}
		for _, export := range []string{"1", printed[1][1]} {
			out, err := a.qemuIO(export, "write -P 165 0 1M", "write -P 7 100 1000", "write -z 64k 4k", "discard 128k 64k", "flush",
				"read -P 7 100 1000", "read -P 165 1100 60k", "read -P 0 64k 4k", "read -P 165 512k 512k")
			if err != nil || strings.Contains(out, "failed") {
				t.Errorf("export %s: %v\n%s", export, err, out)
			}
		}
	})
	a.stop()
	select {
	case <-a.ended:
	case <-time.After(20 * time.Second):
		t.Fatal("attach does not end")
	}
	if _, err := os.Lstat(a.socket); !os.IsNotExist(err) {
		t.Errorf("the socket is still there: %v", err)
	}
}

// TestAttachFio writes, reads and compares with fio's nbd engine.
func TestAttachFio(t *testing.T) {
	engines, err := exec.Command("fio", "--enghelp").Output()
	if err != nil || !strings.Contains(string(engines), "\tnbd\n") {
		t.Skip("there is no fio (Debian's fio) with the nbd engine")
	}
	beside(t)
	s := startTarget(t, "--export", "mem:16MiB", "--export", "mem:16MiB,bs=4096", "--allow-any-host")
	a := startAttach(t, s)
	line := []string{"--ioengine=nbd", "--thread", "--verify=crc32c", "--verify_fatal=1", "--verify_state_save=0", "--output-format=terse"}
	for _, job := range []string{
		"1 randwrite 512 8 64k", "1 randwrite 4k 32 1M", "1 write 1M 4 8M",
		"2 randwrite 4k 32 1M", "2 randwrite 128k 8 4M", "2 randrw 4k 1 128k",
	} {
		w := words(job) // one after the other
		line = append(line, "--name="+strings.Join(w, ","), "--stonewall", "--uri=nbd+unix:///"+w[0]+"?socket="+a.socket,
			"--rw="+w[1], "--bs="+w[2], "--iodepth="+w[3], "--size="+w[4])
	}
	if out, err := exec.Command("fio", line...).CombinedOutput(); err != nil || strings.Count(string(out), "fio-") != 6 {
		t.Errorf("%v\n%s", err, out)
	}
	a.finish(t)
}

func TestAttachStops(t *testing.T) {
	s := startTarget(t, "--export", "mem:1MiB", "--allow-any-host")
	a := startAttach(t, s)
	command(t, "attach", "-a", s.addr, "-n", testNQN, "--socket", a.socket).want(t, exitFailed, "served by another process")
	command(t, "attach", "-a", s.addr, "-n", testNQN).want(t, exitUsage, "--socket is missing")
	command(t, "attach", "-a", s.addr, "-n", testNQN, "--socket", filepath.Join(t.TempDir(), "s"), "--clients", "-4").want(t, exitUsage, "--clients -4: want at least 1")
	command(t, "attach", "-a", s.addr, "-n", testNQN, "--socket", a.socket+"d/s").want(t, exitFailed, a.socket+"d: no such file or directory: create that directory")
	command(t, "attach", "-a", s.addr, "-n", testNQN, "--socket", a.socket+"2", "--namespace-id", "7").want(t, exitUsage, "the subsystem has: 1")
	a.stop()
	if err := <-a.ended; err != nil {
		t.Errorf("after a signal: %v", err)
	}
}

// TestAttachRestart checks that a client's writes continue after the target was away, and that the command ends if the
// target stays away.
func TestAttachRestart(t *testing.T) {
	beside(t)
	s := startConfigured(t, strings.Replace(testConfig, "subsystems:", "  - {id: 2, address: SECOND}\nsubsystems:", 1))
	s.out.await(t, "nvme connect")
	a := startAttach(t, s.testTarget, "-a", s.addr+","+s.second, "-k", "1", "-c", "1", "-l", "8", "--timeout", "2s", "--namespace-id", "2")
	l := startLoad(dialNBD(t, a.socket, "2"))
	l.more(t, 50)
	s.end(t)
	a.errOut.await(t, "nvmeof: "+s.addr+": connecting: ")
	again := s.again(t)
	again.out.await(t, "nvme connect")
	l.more(t, 50)
	l.end(t)
	a.errOut.await(t, "nvmeof: "+s.addr+": live\n")
	a.errOut.await(t, "nvmeof: "+s.second+": live\n")
	a.finish(t)
	a = startAttach(t, s.testTarget, "-a", s.addr+","+s.second, "-k", "1", "-c", "1", "-l", "1", "--timeout", "2s", "--namespace-id", "2")
	again.end(t)
	err := <-a.ended // before its output is examined
	(outcome{errOut: a.errOut.String(), err: err}).want(t, exitConnection, s.addr+": not reconnected within 1s")
}
