package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// TestAttachRefusedPath and TestAttachUnknownPath check that an address whose target rejects this host, or does not
// know the subsystem, does not prevent the use of the other, and is used once it accepts the host.
func TestAttachRefusedPath(t *testing.T) {
	testRefusedPath(t, strings.Replace(testConfig, "allow-any-host: true", "hosts: []", 1))
}

func TestAttachUnknownPath(t *testing.T) {
	if !*long {
		t.Skip("as TestAttachRefusedPath, with -long")
	}
	testRefusedPath(t, strings.Replace(testConfig, ":disk\n", ":other\n", 1))
}

func testRefusedPath(t *testing.T, document string) {
	beside(t)
	live := startConfigured(t, durable)
	live.out.await(t, "nvme connect")
	other := startConfigured(t, document)
	other.out.await(t, "nvme connect")
	a := startAttach(t, live.testTarget, append(quick, "-a", live.addr+","+other.addr)...)
	l := startLoad(dialNBD(t, a.socket, "1"))
	l.more(t, 20)
	a.errOut.await(t, "nvmeof: "+other.addr+": connecting: ")
	time.Sleep(4 * time.Second)
	other.write(t, "target.yaml", testConfig)
	command(t, "target", "apply", "--force", other.file).want(t, 0) // what the other subsystem has in memory is lost
	a.errOut.await(t, "nvmeof: "+other.addr+": live\n")
	l.more(t, 20)
	l.end(t)
	a.finish(t)
}

// TestTargetStartsLater checks that attach and connect wait for their only target.
func TestTargetStartsLater(t *testing.T) {
	beside(t)
	c := configure(t, durable)
	connect := startCommand(t, c.at("connect", "-n", testNQN, "-w", loopbackAddress(), "--ack-timeout", "100ms")...)
	socket := filepath.Join(t.TempDir(), "s")
	attach := startCommand(t, append(quick, "attach", "-a", c.addr, "-n", testNQN, "--socket", socket)...)
	attach.errOut.await(t, "still trying")
	connect.errOut.await(t, "still trying")
	if _, err := os.Lstat(socket); !os.IsNotExist(err) {
		t.Errorf("the socket is there before its export: %v", err)
	}
	startDurable(t, c)
	attach.out.await(t, "nbd-client")
	connect.out.await(t, "nvme0\n")
	dialNBD(t, socket, "1").wantErrno(t, 0, 0)
	for _, p := range []*process{attach, connect} {
		p.stop()
		p.wantEnd(0)
	}
}

// TestNoRoute checks that an address without a route, as while an interface is down, does not prevent the use of
// another, and is waited for if it is the only one.
func TestNoRoute(t *testing.T) {
	beside(t)
	const nowhere = "fe80::5%lo" // the loopback interface has no link-local addresses
	live := startConfigured(t, testConfig)
	live.out.await(t, "nvme connect")
	a := startAttach(t, live.testTarget, append(quick, "-a", nowhere+","+live.addr)...)
	l := a.load(t, "1")
	l.more(t, 50)
	a.errOut.await(t, "nvmeof: no route to "+nowhere+": ")
	l.end(t)
	a.finish(t)
	line := words("-n " + testNQN + " -a " + nowhere)
	attach := append([]string{"attach", "--socket", filepath.Join(t.TempDir(), "s")}, line...)
	for _, line := range [][]string{attach, append([]string{"connect"}, line...)} {
		p := startCommand(t, line...)
		p.errOut.await(t, "no route to "+nowhere)
		p.errOut.await(t, "; still trying")
		p.stop()
		p.wantEnd(exitInterrupted)
		command(t, append(line, "-l", "0")...).want(t, exitConnection, "no route to "+nowhere)
	}
}
