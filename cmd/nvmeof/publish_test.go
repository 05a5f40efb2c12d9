package main

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// TestPublish checks that the namespaces of connect can be used by NBD, and that a client's writes continue after the
// target was away.
func TestPublish(t *testing.T) {
	beside(t)
	s := startConfigured(t, testConfig)
	s.out.await(t, "nvme connect")
	c := startCommand(t, s.at("connect", "-n", testNQN, "-c", "1", "-k", "1")...)
	c.out.await(t, "nvme0\n")
	socket := filepath.Join(runDirOf(t), "nvme0n2.sock")
	uri := "nbd+unix:///nvme0n2?socket=" + socket
	c.errOut.await(t, "nvmeof: nvme0n2: published at "+uri)
	command(t, "list").want(t, 0, "\nnvme0n1 nbd+unix:", "\nnvme0n2 "+uri+"\n")
	command(t, "list", "-o", "json").want(t, 0, `"URI":"`+uri+`"`)
	n := dialNBD(t, socket, "nvme0n2")
	if n.size != 8<<20 {
		t.Errorf("%d bytes", n.size)
	}
	l := startLoad(n)
	l.more(t, 50)
	s.end(t) // its second namespace is a file
	eventually(t, " connecting\n", "list-subsys")
	again := s.again(t)
	again.out.await(t, "nvme connect")
	l.more(t, 50)
	// The disk is removed, and its client disconnected; the other stays.
	command(t, words("namespace remove 2 -n "+testNQN)...).want(t, 0)
	select {
	case err := <-l.ended:
		t.Logf("the disk was removed after %d rounds: %v", l.rounds.Load(), err)
	case <-time.After(30 * time.Second):
		t.Fatal("a client goes on without its disk")
	}
	for limit := time.Now().Add(20 * time.Second); ; time.Sleep(20 * time.Millisecond) {
		if _, err := os.Lstat(socket); os.IsNotExist(err) {
			break
		}
		if time.Now().After(limit) {
			t.Fatal("the socket of a disk that went is still there")
		}
	}
	// The first is memory, and so another disk since the target was restarted.
	if o := command(t, "list").want(t, 0, "nvme0n3"); strings.Contains(o.out, "nvme0n2") {
		t.Errorf("it is listed:\n%s", o.out)
	}
	l = startLoad(dialNBD(t, filepath.Join(runDirOf(t), "nvme0n3.sock"), ""))
	l.more(t, 20)
	command(t, "disconnect", "-n", testNQN).want(t, 0)                 // under load
	if err := <-l.ended; err == nil || errors.As(err, new(nbdErrno)) { // requests that were read are answered, and then the connection ends
		t.Errorf("a load without a disk ends with %v", err)
	}
	c.wantEnd(0)
	if left, _ := filepath.Glob(filepath.Join(runDirOf(t), "*")); len(left) != 1 || filepath.Base(left[0]) != "nvme0.lock" {
		t.Errorf("left: %q", left)
	}
}

const twoListeners = `
version: 1
limits: {shards: 1, polling: never}
listeners:
  - {id: 1, address: ADDR}
  - {id: 2, address: SECOND}
subsystems:
  - nqn: nqn.2026-11.org.example:disk
    allow-any-host: true
    namespaces: [{nsid: 1, memory: {size: 4MiB}}]
`

// TestTwoPaths checks that two connections to one subsystem are paths of it, and that a client continues with one when
// the other is lost.
func TestTwoPaths(t *testing.T) {
	beside(t)
	s := startConfigured(t, twoListeners)
	s.out.await(t, "nvme connect")
	c := startCommand(t, s.at("connect-all")...)
	c.out.await(t, "connecting to device: nvme0\nconnecting to device: nvme1\n")
	o := command(t, "list-subsys", "-v").want(t, 0, "iopolicy=numa\n", " +- nvme0 rdma traddr=", " +- nvme1 rdma traddr=", s.second+",trsvcid=4420 live\n")
	if strings.Contains(o.out, "nvme-subsys1") || strings.Count(o.out, " live\n") != 2 {
		t.Errorf("list-subsys says\n%s", o.out)
	}
	if o := command(t, "list").want(t, 0, "nvme0n1"); strings.Contains(o.out, "nvme1n1") {
		t.Errorf("one namespace is listed as two:\n%s", o.out)
	}
	command(t, "list-subsys", "nvme0n1").want(t, 0, ",trsvcid=4420 live optimized\n +- nvme1 ", s.second+",trsvcid=4420 live optimized\n")
	command(t, "list-subsys", "-o", "json", "/dev/nvme1").want(t, 0, `"ANAState":"optimized"`)
	command(t, "iopolicy", "-d", "nvme-subsys0", "round-robin").want(t, 0, "nvme-subsys0: iopolicy=round-robin\n")
	command(t, "iopolicy", "-n", "nqn.2014-08.org.example:none", "numa").want(t, exitUsage, "no such subsystem")
	command(t, "iopolicy", "best").want(t, exitUsage, "want numa, round-robin, queue-depth or latency")
	command(t, "list-subsys", "-v").want(t, 0, "iopolicy=round-robin\n")
	l := startLoad(dialNBD(t, filepath.Join(runDirOf(t), "nvme0n1.sock"), "nvme0n1"))
	l.more(t, 50)
	command(t, "disconnect", "-d", "nvme0").want(t, 0)
	l.more(t, 50)
	command(t, "list-subsys").want(t, 0, "nvme-subsys0", " +- nvme1 ")
	l.end(t)
	c.stop()
	c.wantEnd(0)
	quiet := startCommand(t, s.at("connect", "-n", testNQN, "--no-publish", "--iopolicy", "queue-depth")...)
	quiet.out.await(t, "nvme0\n")
	command(t, "list-subsys", "-v").want(t, 0, "iopolicy=queue-depth\n")
	if o := command(t, "list").want(t, 0, "nvme0n1"); strings.Contains(o.out, "nbd") {
		t.Errorf("it is published:\n%s", o.out)
	}
}
