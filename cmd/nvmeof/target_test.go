package main

import (
	"crypto/rand"
	"net"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/nvmeof-go/nvmeof/nvmeof"
)

// TestFileSurvivesRestart checks that data in a file is unchanged, with the same identifiers, when another target
// serves it.
func TestFileSurvivesRestart(t *testing.T) {
	path := filepath.Join(t.TempDir(), "disk.img")
	data := make([]byte, 4096)
	rand.Read(data)
	at := []string{"-n", testNQN, "--start-block", "8", "--block-count", "7", "--data-size", "4096"}

	s := startTarget(t, "--export", path+",size=1MiB", "--allow-any-host")
	commandIn(t.Context(), t, data, s.at("write", at...)...).want(t, 0)
	before := command(t, s.at("id-ns", "-n", testNQN)...).want(t, 0)
	s.end(t)

	s = startTarget(t, "--export", path, "--allow-any-host")
	if got := command(t, s.at("read", at...)...).want(t, 0); got.out != string(data) {
		t.Error("the data is not what was written")
	}
	if after := command(t, s.at("id-ns", "-n", testNQN)...).want(t, 0); after.out != before.out {
		t.Errorf("the namespace was\n%s\nand is\n%s", before.out, after.out)
	}
	command(t, "target", "--listen", "127.0.0.1", "--nqn", testNQN, "--export", path, "--allow-any-host").
		want(t, exitFailed, path) // served already
}

func TestMissingFile(t *testing.T) {
	path := filepath.Join(t.TempDir(), "none.img")
	command(t, "target", "--listen", "127.99.0.1", "--nqn", testNQN, "--export", path, "--allow-any-host").
		want(t, exitFailed, path, "as in --export "+path+",size=1GiB")
	if _, err := os.Stat(path); err == nil {
		t.Error("the file was made")
	}
}

// TestTooMuchMemory checks the warning, with both sizes, about more memory than the machine has: in target check, at a
// start, and when memory is added.
func TestTooMuchMemory(t *testing.T) {
	ownSocket(t)
	var machine unix.Sysinfo_t
	if err := unix.Sysinfo(&machine); err != nil {
		t.Fatal(err)
	}
	half := nvmeof.FormatSize(int64(uint64(machine.Totalram)*uint64(machine.Unit)/2&^(1<<20-1) + 1<<20))
	warning := regexp.MustCompile(`warning: (.*: )?memory namespaces have [0-9]+MiB in total, but (this machine has|the cgroup of this process allows) [0-9]+[KMG]iB: .*; export less memory, or files\n`)
	s := startTarget(t, "--export", "mem:"+half, "--export", "mem:"+half, "--allow-any-host")
	s.errOut.await(t, "memory namespaces")
	if n := len(warning.FindAllString(s.errOut.String(), -1)); n != 1 {
		t.Errorf("the target warns %d times:\n%s", n, s.errOut)
	}
	if o := command(t, words("ns add 3 --memory 1MiB -n "+testNQN)...).want(t, 0); !warning.MatchString(o.errOut) {
		t.Errorf("namespace add says\n%s", o.errOut)
	}
	file := filepath.Join(t.TempDir(), "target.yaml")
	command(t, "target", "save", file).want(t, 0)
	if o := command(t, "target", "check", file).want(t, 0); !warning.MatchString(o.errOut) {
		t.Errorf("check says\n%s", o.errOut)
	}
	s.end(t)
	s = startTarget(t, "--export", "mem:1MiB", "--allow-any-host")
	if strings.Contains(s.errOut.String(), "memory namespaces") {
		t.Errorf("a small target warns:\n%s", s.errOut)
	}
}

// TestHostsAreNotified checks that a target that stops ends its connections, so that hosts need not wait for a
// timeout.
func TestHostsAreNotified(t *testing.T) {
	s := startTarget(t, "--export", "mem:1MiB", "--allow-any-host")
	ended := make(chan outcome, 1)
	go func() {
		ended <- commandIn(t.Context(), t, nil, s.at("bench", "-n", testNQN, "--runtime", "1m", "--ramp_time", "0", "--rw", "write")...)
	}()
	for !strings.Contains(command(t, s.at("list", "-o", "json")...).want(t, 0).out, `"UsedBytes":1048576`) {
		if t.Context().Err() != nil {
			t.Fatal("nothing is written")
		}
	}
	s.end(t)
	select {
	case o := <-ended:
		o.want(t, exitConnection, "write of 4096 bytes at offset ", "ns1: (groupid=0, jobs=1)", "  write: IOPS=") // the results so far
	case <-time.After(5 * time.Second):
		t.Fatal("the host does not notice")
	}
}

// TestOrderlyEnd checks that connections lost at a normal end are not reported as the loss of a device.
func TestOrderlyEnd(t *testing.T) {
	s := startTarget(t, "--export", "mem:1MiB", "--allow-any-host")
	s.end(t)
	log := s.errOut.String()
	if strings.Contains(log, "device was removed") || strings.Contains(log, "lost") || !strings.Contains(log, `"msg":"stopping"`) || !strings.Contains(log, `"msg":"counters"`) {
		t.Errorf("the log has\n%s", log)
	}
}

// A serviceManager receives what commands report to systemd.
type serviceManager struct {
	*testing.T
	conn *net.UnixConn
}

// newServiceManager returns one for the commands that the test starts from now on.
func newServiceManager(t *testing.T) *serviceManager {
	t.Helper()
	path := filepath.Join(t.TempDir(), "notify")
	conn, err := net.ListenUnixgram("unixgram", &net.UnixAddr{Name: path, Net: "unixgram"})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { conn.Close() })
	setenv(t, "NOTIFY_SOCKET", path)
	return &serviceManager{t, conn}
}

// want checks the next report.
func (m *serviceManager) want(state string) {
	m.Helper()
	b := make([]byte, 100)
	_ = m.conn.SetReadDeadline(time.Now().Add(20 * time.Second))
	if n, err := m.conn.Read(b); err != nil || string(b[:n]) != state {
		m.Fatalf("%q, %v, want %s", b[:n], err, state)
	}
}

// TestReadiness checks that systemd is notified when the target listens, and when it stops.
func TestReadiness(t *testing.T) {
	manager := newServiceManager(t)
	s := startTarget(t, "--export", "mem:1MiB", "--allow-any-host")
	manager.want("READY=1")
	s.end(t)
	manager.want("STOPPING=1")
}
