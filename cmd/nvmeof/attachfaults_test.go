package main

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// durable has one namespace in a file, which survives the target's death, behind two listeners, each with a device of
// its own.
const durable = `
version: 1
limits: {shards: 1, polling: never}
listeners:
  - {id: 1, address: ADDR}
  - {id: 2, address: SECOND}
subsystems:
  - nqn: nqn.2026-11.org.example:disk
    allow-any-host: true
    namespaces: [{nsid: 1, file: {path: DIR/disk.img, size: 8MiB}}]
`

// quick are flags with which the loss of a controller is detected, and the controller reconnected, soon.
var quick = []string{"-k", "1", "-c", "1", "--timeout", "3s", "--polling", "never"}

// startDurable runs such a target as a process of its own.
func startDurable(t *testing.T, c *configured) *separate {
	t.Helper()
	s := startSeparate(t, "target", "--config", c.file)
	s.out.await(t, "nvme connect -t rdma -a "+c.second)
	return s
}

// load starts a load of several clients on the export.
func (a *attached) load(t *testing.T, export string) *nbdLoad {
	t.Helper()
	var clients []*nbdClient
	for range 3 {
		clients = append(clients, dialNBD(t, a.socket, export))
	}
	return startLoad(clients...)
}

// finish stops attach, which must end without an error.
func (a *attached) finish(t *testing.T) {
	t.Helper()
	a.stop()
	select {
	case err := <-a.ended:
		if err != nil {
			t.Errorf("attach ended with %v", err)
		}
	case <-time.After(20 * time.Second):
		t.Fatal("attach does not end")
	}
}

// TestAttachKilled kills the target's process under load and restarts it. No client gets an error, and no acknowledged
// write is lost, neither for readers nor in the file.
func TestAttachKilled(t *testing.T) {
	beside(t)
	c := configure(t, durable)
	target := startDurable(t, c)
	a := startAttach(t, c.testTarget, append(quick, "-a", c.addr+","+c.second)...)
	l := a.load(t, "1")
	l.more(t, 50)
	target.kill(t)
	target = startDurable(t, c)
	for _, addr := range []string{c.addr, c.second} {
		a.errOut.await(t, "nvmeof: "+addr+": live\n")
	}
	l.more(t, 50)
	l.end(t)
	a.finish(t)
	target.kill(t)
	l.wantFile(t, filepath.Join(c.dir, "disk.img"))
}

// TestAttachSilent stops the target for longer than its controllers live, and lets it continue with what it had
// received. Requests wait and are repeated through the next controller without an error, once both sides have
// authenticated again.
func TestAttachSilent(t *testing.T) {
	beside(t)
	hostFile, hostKey := writeKey(t, "host.key", 0o600)
	ctrlFile, ctrlKey := writeKey(t, "ctrl.key", 0o600)
	c := configure(t, strings.Replace(durable, "allow-any-host: true",
		"hosts: [{nqn: '"+keyedHost+"', key-file: '"+hostFile+"', controller-key-file: '"+ctrlFile+"'}]", 1))
	target := startDurable(t, c)
	a := startAttach(t, c.testTarget, append(quick, "-q", keyedHost, "-S", hostKey, "-C", ctrlKey)...)
	l := a.load(t, "1")
	l.more(t, 50)
	target.signal(t, unix.SIGSTOP)
	a.errOut.await(t, "nvmeof: "+c.addr+": connecting")
	time.Sleep(time.Second)
	target.signal(t, unix.SIGCONT)
	l.more(t, 100)
	l.end(t)
	a.finish(t)
	target.kill(t)
	l.wantFile(t, filepath.Join(c.dir, "disk.img"))
	if n := strings.Count(target.errOut.String(), "host authenticated"); n < 2 {
		t.Errorf("the host was authenticated %d times", n)
	}
}

// TestAttachListeners removes and adds listeners and changes ANA states under load, with at least one path to the
// namespace left, or none for a moment.
func TestAttachListeners(t *testing.T) {
	beside(t)
	c := startConfigured(t, durable)
	c.out.await(t, "nvme connect -t rdma -a "+c.second)
	a := startAttach(t, c.testTarget, append(quick, "-a", c.addr+","+c.second)...)
	l := a.load(t, "1")
	run := func(line string) {
		t.Helper()
		command(t, words(line)...).want(t, 0)
		l.more(t, 9)
	}
	run("listener remove 1")
	a.errOut.await(t, "nvmeof: "+c.addr+": connecting")
	run("listener add 1 " + c.addr)
	a.errOut.await(t, "nvmeof: "+c.addr+": live\n")
	for _, state := range []string{"non-optimized", "inaccessible", "persistent-loss", "change"} {
		for _, id := range []string{"1", "2"} {
			run("ana-group set 1 --listener " + id + " --state " + state)
			run("ana-group set 1 --listener " + id + " --state optimized")
		}
	}
	command(t, words("ana-group set 1 --listener 1 --state inaccessible")...).want(t, 0)
	command(t, words("ana-group set 1 --listener 2 --state inaccessible")...).want(t, 0) // no path: requests wait
	at := l.rounds.Load()
	time.Sleep(200 * time.Millisecond)
	at, before := l.rounds.Load(), at
	if at-before > 10 {
		t.Errorf("%d rounds by a namespace that is inaccessible", at-before)
	}
	run("ana-group set 1 --listener 2 --state optimized")
	l.end(t)
	a.finish(t)
	l.wantFile(t, filepath.Join(c.dir, "disk.img"))
}

// TestAttachPathReturns checks that a path that was away for longer than its controller is kept, while there was
// another path, is used again when it is back.
func TestAttachPathReturns(t *testing.T) {
	beside(t)
	c := startConfigured(t, durable)
	c.out.await(t, "nvme connect -t rdma -a "+c.second)
	a := startAttach(t, c.testTarget, append(quick, "-a", c.addr+","+c.second, "-l", "1")...)
	l := a.load(t, "1")
	command(t, words("listener remove 1")...).want(t, 0)
	a.errOut.await(t, "nvmeof: "+c.addr+": connecting")
	time.Sleep(2 * time.Second)
	l.more(t, 9)
	command(t, words("listener add 1 "+c.addr)...).want(t, 0)
	a.errOut.await(t, "nvmeof: "+c.addr+": live\n")
	command(t, words("listener remove 2")...).want(t, 0)
	l.more(t, 9)
	l.end(t)
	a.finish(t)
	l.wantFile(t, filepath.Join(c.dir, "disk.img"))
}

// TestAttachReplaced checks a target that returns with another namespace with the same NSID: this is reported. Clients
// of the old one cannot write to it; new clients get it, unless they ask for the old one by its UUID.
func TestAttachReplaced(t *testing.T) {
	beside(t)
	const first, second = "6f1f2a3c-0d3e-4c7b-9d57-1a0f6f0e5b01", "6f1f2a3c-0d3e-4c7b-9d57-1a0f6f0e5b02"
	with := func(id, file string) string {
		return strings.NewReplacer("{nsid: 1,", "{nsid: 1, uuid: "+id+",", "disk.img", file).Replace(durable)
	}
	c := configure(t, with(first, "disk.img"))
	target := startDurable(t, c)
	a := startAttach(t, c.testTarget, quick...)
	n := dialNBD(t, a.socket, "1")
	n.wantErrno(t, 0, 0)
	dialNBD(t, a.socket, first).wantErrno(t, 0, 0)
	target.kill(t)
	c.write(t, "target.yaml", with(second, "other.img"))
	startDurable(t, c)
	n.wantErrno(t, 0, nbdEIO)
	said := "namespace 1 is a different one: its identifier is now UUID " + second + ", and was UUID " + first
	a.errOut.await(t, "nvmeof: path "+c.addr+":4420: "+said+"\n")
	a.errOut.await(t, "nvmeof: disk 1: a request failed: ")
	if b, err := os.ReadFile(filepath.Join(c.dir, "other.img")); err != nil || bytes.ContainsFunc(b, func(r rune) bool { return r != 0 }) {
		t.Errorf("the other file was written, or %v", err)
	}
	soon(t, "the other one is published", func() bool {
		again := dialNBD(t, a.socket, "1")
		defer again.c.Close()
		return again.do(nbdWrite, 0, bytes.Repeat([]byte{7}, 4096)) == nil
	})
	n.wantErrno(t, 0, nbdEIO)
	if offered(t, a.socket, first) || !offered(t, a.socket, second) {
		t.Error("a UUID leads to another namespace, or not to its own")
	}
	a.finish(t)
	a.errOut.await(t, "; failed: ")
}
