package main

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/nvmeof-go/nvmeof/cmd/nvmeof/internal/fabricoptions"
)

// A process is a command that stays.
type process struct {
	*testing.T
	out, errOut *output
	stop        context.CancelFunc
	ended       chan error
}

func startCommand(t *testing.T, args ...string) *process {
	t.Helper()
	p := &process{T: t, out: newOutput(), errOut: newOutput()}
	p.stop, p.ended = begin(t, p.out, p.errOut, args...)
	t.Cleanup(func() {
		p.stop()
		p.wait()
	})
	return p
}

// wait returns the error with which the command ends.
func (p *process) wait() error {
	p.Helper()
	select {
	case err := <-p.ended:
		p.ended <- err
		return err
	case <-time.After(30 * time.Second):
		p.Fatalf("the command does not end\n%s%s", p.out, p.errOut)
		return nil
	}
}

func (p *process) wantEnd(code int, texts ...string) {
	p.Helper()
	err := p.wait() // before its output is examined
	(outcome{p.out.String(), p.errOut.String(), err}).want(p.T, code, texts...)
}

// eventually repeats a command until its output contains a text.
func eventually(t *testing.T, text string, args ...string) {
	t.Helper()
	limit := time.Now().Add(20 * time.Second)
	for {
		o := command(t, args...)
		if strings.Contains(o.out, text) {
			return
		}
		if time.Now().After(limit) {
			t.Fatalf("%s never says %q:\n%s%s%v", strings.Join(args, " "), text, o.out, o.errOut, o.err)
		}
		time.Sleep(100 * time.Millisecond)
	}
}

// TestConnect checks that the connections of one process are listed and ended by others.
func TestConnect(t *testing.T) {
	inOwnRunDir(t)
	s := startTarget(t, "--export", "mem:16MiB", "--export", "mem:8MiB,bs=4096", "--allow-any-host")
	command(t, "list-subsys").want(t, 0)
	c := startCommand(t, s.at("connect", "-n", testNQN, "-l", "60", "-c", "2", "-k", "7")...)
	c.out.await(t, "connecting to device: nvme0\n")
	c.errOut.await(t, "nvme0: keep alive timeout 7s; reconnect interval at most 2s, given up after 1m0s; requests fail with that")
	o := command(t, "list-subsys").want(t, 0)
	id, err := (&fabricoptions.Connection{}).Identity()
	if err != nil {
		t.Fatal(err)
	}
	if want := fmt.Sprintf("nvme-subsys0 - NQN=%s\n               hostnqn=%s\n\\\n +- nvme0 rdma traddr=%s,trsvcid=4420 live\n", testNQN, id.NQN, s.addr); o.out != want {
		t.Errorf("list-subsys says\n%swant\n%s", o.out, want)
	}
	command(t, "list-subsys", "-o", "json", "/dev/nvme0n1").want(t, 0, `"Name":"nvme0",`, `"State":"live"`)
	if o := command(t, "list-subsys", "nvme0n3").want(t, 0); o.out != "" {
		t.Errorf("list-subsys of a namespace that is not there: %s", o.out)
	}
	command(t, "list").want(t, 0, "nvme0n1 ", "ng0n1 ", " /  16.78  MB    512   B +  0 B", "nvme0n2 ", "8.39  MB      4 KiB")
	at := s.at("connect", "-n", testNQN)
	command(t, at...).want(t, exitFailed, "already connected as nvme0")
	command(t, append(at, "--idempotent", "-o", "json")...).want(t, 0, "{\n  \"device\":\"nvme0\"\n}\n")

	twice := startCommand(t, append(at, "-D")...)
	twice.out.await(t, "connecting to device: nvme1\n")
	command(t, "list-subsys").want(t, 0, "nvme-subsys1 - NQN")
	command(t, "disconnect", "-d", "/dev/nvme1").want(t, 0)
	twice.wantEnd(0)
	command(t, "disconnect", "-d", "nvme1").want(t, exitUsage, "Did not find device nvme1")
	command(t, "disconnect", "-n", "nqn.2014-08.org.example:none").want(t, 0, "disconnected 0 controller(s)\n")
	command(t, "disconnect", "-n", testNQN).want(t, 0, "NQN:"+testNQN+" disconnected 1 controller(s)\n")
	c.wantEnd(0)
	if o := command(t, "list-subsys", "-o", "json").want(t, 0); o.out != "[]\n" {
		t.Errorf("list-subsys says %s", o.out)
	}
	for range 2 {
		c := startCommand(t, at...)
		c.out.await(t, "nvme0\n") // the number is free again
		c.stop()                  // as SIGTERM
		c.wantEnd(0)
	}
	c = startCommand(t, at...)
	c.out.await(t, "nvme0\n")
	command(t, "disconnect-all", "-r", "tcp").want(t, 0)
	command(t, "list-subsys").want(t, 0, "nvme0 rdma")
	command(t, "disconnect-all").want(t, 0)
	c.wantEnd(0)
}

// TestConnectBesides checks that one process is the endpoint of a host's address, and connects for others.
func TestConnectBesides(t *testing.T) {
	beside(t)
	one, two := startTarget(t, "--export", "mem:1MiB", "--allow-any-host"), startTarget(t, "--export", "mem:1MiB", "--allow-any-host")
	here := loopbackAddress()
	a := startCommand(t, one.at("connect", "-n", testNQN, "-w", here)...)
	a.out.await(t, "nvme0\n")
	sockets, _ := filepath.Glob(filepath.Join(runDirOf(t), "[0-9]*.sock")) // PID.N.sock
	if len(sockets) != 1 {
		t.Fatal(sockets)
	}
	pid, _, _ := strings.Cut(filepath.Base(sockets[0]), ".")
	b := startCommand(t, two.at("connect", "-n", testNQN, "-w", here)...)
	b.out.await(t, "connecting to device: nvme1\n")
	b.errOut.await(t, fmt.Sprintf("nvme1: held by process %s, the RoCE endpoint of %s", pid, here))
	command(t, "list-subsys").want(t, 0, "nvme-subsys0", " +- nvme0 rdma traddr="+one.addr+",trsvcid=4420,host_traddr="+here+" live",
		" +- nvme1 rdma traddr="+two.addr+",trsvcid=4420,host_traddr="+here+" live")
	b.stop()
	b.wantEnd(0)
	if o := command(t, "list-subsys").want(t, 0, "nvme0"); strings.Contains(o.out, "nvme1") {
		t.Errorf("what was held for another process stays:\n%s", o.out)
	}
	b = startCommand(t, two.at("connect", "-n", testNQN, "-w", here)...)
	b.out.await(t, "nvme1\n")
	command(t, "disconnect", "-d", "nvme1").want(t, 0)
	b.wantEnd(0)
	command(t, two.at("connect", "-n", "nqn.2014-08.org.example:none", "-w", here)...).want(t, exitFailed, "does not connect", "no such subsystem here")
	b = startCommand(t, two.at("connect", "-n", testNQN, "-w", here)...)
	b.out.await(t, "nvme1\n")
	a.stop()
	a.wantEnd(0)
	b.out.await(t, "connecting to device: nvme0\n") // without any action
	command(t, "list-subsys").want(t, 0, " +- nvme0 rdma traddr="+two.addr)
	b.stop()
	b.wantEnd(0)
}

// TestReadinessOfBorrower checks that a process that connects again after the end of the process that held its
// controller does not report that it is stopping: systemd kills a unit that continues after such a report.
func TestReadinessOfBorrower(t *testing.T) {
	beside(t)
	one, two := startTarget(t, "--export", "mem:1MiB", "--allow-any-host"), startTarget(t, "--export", "mem:1MiB", "--allow-any-host")
	here := loopbackAddress()
	owner := startCommand(t, one.at("connect", "-n", testNQN, "-w", here)...)
	owner.out.await(t, "nvme0\n")
	manager := newServiceManager(t)
	borrower := startCommand(t, two.at("connect", "-n", testNQN, "-w", here)...)
	manager.want("READY=1")
	borrower.errOut.await(t, "nvme1: held by process ")
	owner.stop()
	owner.wantEnd(0)
	manager.want("READY=1") // it continues
	borrower.stop()
	borrower.wantEnd(0)
	manager.want("STOPPING=1")
}

// TestBorrowerKilled checks that a controller held for another process is disconnected when that is killed, and can be
// connected again.
func TestBorrowerKilled(t *testing.T) {
	beside(t)
	one, two := startTarget(t, "--export", "mem:1MiB", "--allow-any-host"), startTarget(t, "--export", "mem:1MiB", "--allow-any-host")
	here := loopbackAddress()
	owner := startCommand(t, one.at("connect", "-n", testNQN, "-w", here)...)
	owner.out.await(t, "nvme0\n")
	borrow := two.at("connect", "-n", testNQN, "-w", here)
	borrower := startSeparate(t, borrow...)
	borrower.out.await(t, "connecting to device: nvme1\n")
	borrower.kill(t)
	owner.errOut.await(t, "nvme1: disconnected: the process that requested the connection has ended")
	if o := command(t, "list-subsys").want(t, 0, " +- nvme0 "); strings.Contains(o.out, "nvme1") {
		t.Errorf("what was held for a process that was killed stays:\n%s", o.out)
	}
	again := startCommand(t, borrow...)
	again.out.await(t, "connecting to device: nvme1\n")
	again.stop()
	again.wantEnd(0)
	owner.stop()
	owner.wantEnd(0)
}

// TestDisconnectBesides checks that disconnecting a subsystem, or all, ends all of its paths, including those held for
// another process, which does not connect again by itself.
func TestDisconnectBesides(t *testing.T) {
	beside(t)
	s := startConfigured(t, twoListeners)
	s.out.await(t, "nvme connect -t rdma -a "+s.second)
	here := loopbackAddress()
	for i := range 3 {
		a := startCommand(t, s.at("connect", "-n", testNQN, "-w", here)...)
		a.out.await(t, "nvme0\n")
		b := startCommand(t, "connect", "-t", "rdma", "-a", s.second, "-n", testNQN, "-w", here)
		b.out.await(t, "nvme1\n")
		if i%2 == 0 {
			command(t, "disconnect", "-n", testNQN).want(t, 0, "disconnected 2 controller(s)\n")
		} else {
			command(t, "disconnect-all").want(t, 0)
		}
		a.wantEnd(0)
		b.wantEnd(0)
		if said := b.out.String(); strings.Count(said, "connecting to device") != 1 {
			t.Errorf("the other process connected again:\n%s", said)
		}
		if o := command(t, "list-subsys").want(t, 0); o.out != "" {
			t.Errorf("still connected:\n%s", o.out)
		}
	}
}

// TestTwoDisks checks that a connection from another address of the host does not make a second path but another disk
// of the same data, with a warning. From the same address it makes a path.
func TestTwoDisks(t *testing.T) {
	beside(t)
	s := startConfigured(t, twoListeners)
	s.out.await(t, "nvme connect -t rdma -a "+s.second)
	here := loopbackAddress()
	a := startCommand(t, s.at("connect", "-n", testNQN, "-w", here)...)
	a.out.await(t, "nvme0\n")
	path := startCommand(t, "connect", "-t", "rdma", "-a", s.second, "-n", testNQN, "-w", here)
	path.out.await(t, "nvme1\n")
	disk := startCommand(t, "connect", "-t", "rdma", "-a", s.second, "-n", testNQN, "-w", loopbackAddress())
	disk.errOut.await(t, "warning: the subsystem is already connected, as nvme0 by "+s.addr)
	if said := path.errOut.String() + a.errOut.String(); strings.Contains(said, "warning: the subsystem") {
		t.Errorf("of a path it says\n%s", said)
	}
	command(t, "disconnect-all").want(t, 0)
	for _, c := range []*process{a, path, disk} {
		c.wantEnd(0)
	}
}

// TestReconnect checks that a target that was away is connected again, and one that stays away is given up.
func TestReconnect(t *testing.T) {
	beside(t)
	first := startConfigured(t, testConfig)
	first.out.await(t, "nvme connect")
	c := startCommand(t, first.at("connect", "-n", testNQN, "-c", "1", "-l", "60", "-k", "2")...)
	c.out.await(t, "nvme0\n")
	command(t, "list").want(t, 0, "nvme0n2")
	first.end(t)
	eventually(t, " connecting\n", "list-subsys")
	command(t, "list").want(t, 0, "nvme0n1", "nvme0n2") // requests wait
	again := first.again(t)
	eventually(t, " live\n", "list-subsys")
	eventually(t, "nvme0n3", "list") // memory, which is another disk now
	// Another namespace is added, and removed.
	command(t, words("namespace add 7 -n "+testNQN+" --memory 1MiB")...).want(t, 0)
	eventually(t, "nvme0n4", "list")
	command(t, words("namespace remove 1 -n "+testNQN)...).want(t, 0)
	for limit := time.Now().Add(20 * time.Second); strings.Contains(command(t, "list").out, "nvme0n3 "); time.Sleep(50 * time.Millisecond) {
		if time.Now().After(limit) {
			t.Fatal("a namespace that was removed stays")
		}
	}
	command(t, "list").want(t, 0, "nvme0n2 ", "nvme0n4 ") // the others keep their names
	short := startCommand(t, again.at("connect", "-n", testNQN, "-c", "1", "-l", "1", "-D")...)
	short.out.await(t, "nvme1\n")
	again.end(t)
	short.wantEnd(exitConnection, "not reconnected within 1s")
	if o := short.errOut.String(); strings.Contains(o, "accepted the connection") {
		t.Errorf("of a target that has ended it says %s", o)
	}
	c.stop()
	c.wantEnd(0)
}

// TestRefusedLater checks that the reason why a target rejects a reconnecting host is reported once, and shown while
// it applies.
func TestRefusedLater(t *testing.T) {
	beside(t)
	ownSocket(t)
	s := startTarget(t, "--export", "mem:1MiB", "--allow-any-host")
	s.out.await(t, "nvme connect")
	socket := filepath.Join(t.TempDir(), "s")
	c := startCommand(t, s.at("connect", "-n", testNQN, "-c", "1")...)
	c.out.await(t, "nvme0\n")
	a := startCommand(t, s.at("attach", "-n", testNQN, "-c", "1", "--socket", socket)...)
	a.out.await(t, "namespace 1, ")
	command(t, words("subsystem set "+testNQN+" --allow-any-host=false --force")...).want(t, 0)
	const why = "does not allow this host"
	c.errOut.await(t, "nvme0: connecting: ")
	c.errOut.await(t, why)
	a.errOut.await(t, why)
	command(t, "list-subsys", "-v").want(t, 0, "4420 connecting: ", why)
	command(t, "list-subsys", "-o", "json").want(t, 0, `"State":"connecting",`, `"Error":"`, why)
	time.Sleep(1500 * time.Millisecond) // it is rejected again meanwhile
	if n := strings.Count(c.errOut.String(), why); n != 1 {
		t.Errorf("it says %d times why:\n%s", n, c.errOut)
	}
	command(t, words("subsystem set "+testNQN+" --allow-any-host=true")...).want(t, 0)
	c.errOut.await(t, "nvme0: live")
	command(t, "list-subsys", "-v").want(t, 0, "4420 live\n")
}

// TestReplacedNamespace checks that a namespace with the NSID of one that was removed is not published under the name
// of that one: a client that was disconnected and reconnects by itself, as qemu does (reconnect-delay), must not
// continue on another disk.
func TestReplacedNamespace(t *testing.T) {
	beside(t)
	s := startConfigured(t, testConfig)
	s.out.await(t, "nvme connect")
	c := startCommand(t, s.at("connect", "-n", testNQN)...)
	c.out.await(t, "nvme0\n")
	socket := filepath.Join(runDirOf(t), "nvme0n1.sock")
	l := startLoad(dialNBD(t, socket, "nvme0n1"))
	l.more(t, 20)
	for i, size := range []string{"3MiB", "5MiB"} {
		command(t, words("namespace remove 1 -n "+testNQN)...).want(t, 0)
		command(t, words("namespace add 1 -n "+testNQN+" --memory "+size)...).want(t, 0)
		eventually(t, map[string]string{"3MiB": "/   3.15  MB", "5MiB": "/   5.24  MB"}[size], "list")
		command(t, "list").want(t, 0, fmt.Sprintf("nvme0n%d ", i+3))
	}
	if err := <-l.ended; err == nil {
		t.Error("a load without its disk ends without an error")
	}
	if _, err := net.Dial("unix", socket); !errors.Is(err, unix.ENOENT) {
		t.Errorf("a client that comes back finds a disk, or %v", err)
	}
	c.stop()
	c.wantEnd(0)
}

// again restarts a target that has ended.
func (c *configured) again(t *testing.T) *testTarget {
	t.Helper()
	again := &testTarget{addr: c.addr, out: newOutput(), errOut: newOutput()}
	again.stop, again.ended = begin(t, again.out, again.errOut, "target", "--config", c.file)
	t.Cleanup(func() { again.end(t) })
	return again
}

// TestConnectOnce checks that with --ctrl-loss-tmo 0 a controller is given up as soon as it is lost.
func TestConnectOnce(t *testing.T) {
	beside(t)
	s := startTarget(t, "--export", "mem:1MiB", "--allow-any-host")
	c := startCommand(t, s.at("connect", "-n", testNQN, "-l", "0")...)
	c.out.await(t, "connecting to device: nvme0\n")
	eventually(t, " +- nvme0 rdma traddr="+s.addr+",trsvcid=4420 live\n", "list-subsys")
	a := startAttach(t, s, "-l", "0")
	dialNBD(t, a.socket, "1").wantErrno(t, 0, 0)
	s.end(t)
	c.wantEnd(exitConnection, "nvme0: ")
	a.errOut.await(t, s.addr+": dead: ")
}

func TestBadConnect(t *testing.T) {
	inOwnRunDir(t)
	s := startTarget(t, "--export", "mem:1MiB", "--allow-host", "nqn.2014-08.org.example:somebody")
	for _, c := range []struct {
		line string
		code int
		text string
	}{
		{"connect -t rdma", exitUsage, "--traddr is missing"},
		{"connect -t tcp -a ADDR -n NQN", exitUsage, "--transport tcp: only rdma is supported"},
		{"connect -t rdma -a ADDR", exitUsage, "--nqn is missing"},
		{"connect -t rdma -a ADDR -n nqn.2014-08.org.nvmexpress.discovery", exitUsage, "use nvmeof discover --persistent"},
		{"connect -t rdma -a ADDR -n NQN", exitConnection, "This host is nqn."},
		{"connect -t rdma -a ADDR -n NQN --tls", exitUsage, "--tls: there is no TLS over RDMA"},
		{"connect -t rdma -a ADDR -n NQN -P 2", exitUsage, "--nr-poll-queues: "},
		{"connect -t rdma -a ADDR -n NQN -f eth0", exitUsage, "--host-iface is not supported"},
		{"connect -t rdma -a ADDR -n NQN -c 0", exitUsage, "--reconnect-delay 0: 1 to"},
		{"connect -t rdma -a ADDR -n NQN --iopolicy best", exitUsage, "--iopolicy \"best\": want numa, round-robin"},
		{"connect -t rdma -a ADDR -n NQN -l -2", exitUsage, "--ctrl-loss-tmo -2: -1 to"},
		{"connect -t rdma -a ADDR -n NQN --reconect-delay 1", exitUsage, "did you mean reconnect-delay?"},
		{"connect -t rdma -a ADDR -n NQN -o xml", exitUsage, "--output-format xml"},
		{"disconnect", exitUsage, "--nqn or --device is missing"},
		{"connect-all --nbft", exitUsage, "--nbft is not supported"},
		{"connect-all --config none", exitUsage, "--traddr is missing, and no file names a discovery controller"},
		{"connect-all --config /nowhere/x.json", exitUsage, "/nowhere/x.json: "},
		{"connect-all -t rdma -a ADDR", exitFailed, "list no subsystem to this host"},
	} {
		command(t, words(strings.NewReplacer("ADDR", s.addr, "NQN", testNQN).Replace(c.line))...).want(t, c.code, c.text)
	}
	if o := command(t, "list-subsys").want(t, 0); o.out != "" {
		t.Errorf("something is connected:\n%s", o.out)
	}
}

// TestNoRunDir checks that if the directory of connections cannot be created, the error says what it is for, and how
// to choose another.
func TestNoRunDir(t *testing.T) {
	s := startTarget(t, "--export", "mem:1MiB", "--allow-any-host")
	file := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	setenv(t, "NVMEOF_RUN_DIR", filepath.Join(file, "run"))
	command(t, s.at("connect", "-n", testNQN)...).want(t, exitFailed, "cannot use directory "+file+"/run for the names and sockets of connections", "set NVMEOF_RUN_DIR in the environment to another directory")
}

// TestDumpConfig checks that the dumped connections are a valid file.
func TestDumpConfig(t *testing.T) {
	inOwnRunDir(t)
	t.Setenv("XDG_CONFIG_HOME", t.TempDir())
	o := command(t, words("connect -a 192.0.2.1 -n "+testNQN+" -l -1 -d -O -q nqn.2014-08.org.example:me -I 6f1f2a3c-0d3e-4c7b-9d57-1a0f6f0e5b01")...).want(t, 0)
	want := `[
  {
    "hostnqn": "nqn.2014-08.org.example:me",
    "hostid": "6f1f2a3c-0d3e-4c7b-9d57-1a0f6f0e5b01",
    "subsystems": [
      {
        "nqn": "nqn.2026-11.org.example:disk",
        "ports": [
          {
            "transport": "rdma",
            "traddr": "192.0.2.1",
            "ctrl_loss_tmo": -1,
            "disable_sqflow": true
          }
        ]
      }
    ]
  }
]
`
	if o.out != want {
		t.Errorf("got\n%s\nwant\n%s", o.out, want)
	}
	file := filepath.Join(t.TempDir(), "config.json")
	if err := os.WriteFile(file, []byte(o.out), 0o600); err != nil {
		t.Fatal(err)
	}
	if again := command(t, "connect-all", "--config", file, "-O").want(t, 0); again.out != o.out {
		t.Errorf("read and written again:\n%s", again.out)
	}
}
