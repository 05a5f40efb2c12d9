package main

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// TestStoppedProcesses checks that commands name a process that was stopped, and that controllers disconnected while a
// target hangs are counted although the requests of their clients have not ended.
func TestStoppedProcesses(t *testing.T) {
	beside(t)
	c := configure(t, durable)
	target := startDurable(t, c)
	host := startSeparate(t, c.at("connect", "-n", testNQN)...)
	host.out.await(t, "nvme0\n")
	host.signal(t, unix.SIGSTOP)
	silent := fmt.Sprintf("process %d has not answered for 5s: it is stopped or hangs", host.cmd.Process.Pid)
	command(t, "list-subsys").want(t, exitFailed, silent)
	host.signal(t, unix.SIGCONT)

	n := dialNBD(t, filepath.Join(runDirOf(t), "nvme0n1.sock"), "nvme0n1")
	target.signal(t, unix.SIGSTOP)
	read := make(chan error, 1)
	go func() { read <- n.do(nbdRead, 0, make([]byte, 4096)) }() // ends with the connection
	time.Sleep(100 * time.Millisecond)                           // the request has arrived
	command(t, "disconnect", "-n", testNQN).want(t, exitFailed, "disconnected 1 controller(s)\n", "requests of its clients were not completed in time")
	if err := <-read; err == nil {
		t.Error("a read of a target that was stopped succeeds")
	}
	host.wantEnd(t, 0, "nvme0: dead")
}

// TestTakeoverOfStopped checks that a process that wants to take over a stopped target reports that, and ends. The
// target continues with its hosts when it is resumed, and can be taken over then.
func TestTakeoverOfStopped(t *testing.T) {
	beside(t)
	c := configure(t, durable)
	old := startDurable(t, c)
	a := startAttach(t, c.testTarget)
	old.signal(t, unix.SIGSTOP)
	taker := startSeparate(t, "target", "--config", c.file, "--takeover")
	taker.wantEnd(t, 1, "has not answered for 10s: it is stopped or hangs")
	old.signal(t, unix.SIGCONT)
	l := a.load(t, "1")
	l.more(t, 50)
	next := startSeparate(t, "target", "--config", c.file, "--takeover")
	old.wantEnd(t, 0, "another process has taken over")
	l.more(t, 50)
	l.end(t)
	a.finish(t)
	next.kill(t)
	l.wantFile(t, filepath.Join(c.dir, "disk.img"))
}

// TestKilledConnect checks that what a killed nvmeof connect leaves behind is removed by the next one of that
// subsystem, if no process serves it.
func TestKilledConnect(t *testing.T) {
	beside(t)
	s := startConfigured(t, testConfig)
	s.out.await(t, "nvme connect")
	host := startSeparate(t, s.at("connect", "-n", testNQN)...)
	host.out.await(t, "nvme0\n")
	host.kill(t)
	command(t, words("namespace remove 2 -n "+testNQN)...).want(t, 0)
	gone := filepath.Join(runDirOf(t), "nvme0n2.sock")
	if _, err := os.Lstat(gone); err != nil {
		t.Errorf("a process that is killed removes a socket: %v", err)
	}
	again := startCommand(t, s.at("connect", "-n", testNQN)...)
	again.out.await(t, "nvme0\n")
	if _, err := os.Lstat(gone); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("the socket of a disk that is no more: %v", err)
	}
	dialNBD(t, filepath.Join(runDirOf(t), "nvme0n1.sock"), "nvme0n1")
	again.stop()
	again.wantEnd(0)
}
