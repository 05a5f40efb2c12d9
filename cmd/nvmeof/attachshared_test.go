package main

import (
	"testing"
	"time"
)

// TestAttachProtected checks that a namespace that becomes read-only rejects only writes, and that clients of a paused
// one wait.
func TestAttachProtected(t *testing.T) {
	beside(t)
	s := startConfigured(t, testConfig)
	s.out.await(t, "nvme connect")
	a := startAttach(t, s.testTarget)
	run := func(line string) {
		t.Helper()
		command(t, words(line+" -n "+testNQN)...).want(t, 0)
	}
	n := dialNBD(t, a.socket, "2")
	n.wantErrno(t, 0, 0)
	run("namespace set 2 --read-only")
	n.wantErrno(t, 0, nbdEPERM)
	a.offers(t, "2", true)
	if err := n.do(nbdRead, 0, make([]byte, 4096)); err != nil {
		t.Error(err)
	}
	run("namespace set 2 --read-only=false")
	n.wantErrno(t, 0, 0)
	a.offers(t, "2", false)
	_ = n.c.Close()

	l := a.load(t, "2")
	l.more(t, 50)
	run("namespace pause 2 --limit 20s")
	before := l.rounds.Load()
	time.Sleep(500 * time.Millisecond)
	if more := l.rounds.Load() - before; more > 6 {
		t.Errorf("%d rounds while the namespace is paused", more)
	}
	run("namespace resume 2")
	l.more(t, 50)
	l.end(t)
	a.finish(t)
}

// offers waits until new clients are offered an export read-only, or writable.
func (a *attached) offers(t *testing.T, export string, readOnly bool) {
	t.Helper()
	for until := time.Now().Add(10 * time.Second); ; time.Sleep(20 * time.Millisecond) {
		n := dialNBD(t, a.socket, export)
		_ = n.c.Close()
		if n.readOnly == readOnly {
			return
		}
		if time.Now().After(until) {
			t.Fatalf("new clients find the export read-only: %t", n.readOnly)
		}
	}
}

// TestAttachReserved checks that another host's reservation keeps attach from writing until it is released.
func TestAttachReserved(t *testing.T) {
	s := startTarget(t, "--export", "mem:1MiB", "--allow-any-host")
	a := startAttach(t, s)
	n := dialNBD(t, a.socket, "1")
	n.wantErrno(t, 0, 0)
	other := func(verb string, more ...string) {
		t.Helper()
		at := s.at(verb, "-n", testNQN, "--namespace-id", "1", "-q", "nqn.2014-08.org.example:other", "-I", "6f1f2a3c-0d3e-4c7b-9d57-1a0f6f0e5b99")
		command(t, append(at, more...)...).want(t, 0)
	}
	other("resv-register", "--nrkey", "0x5", "--rrega", "0")
	other("resv-acquire", "--crkey", "0x5", "--rtype", "1", "--racqa", "0")
	n.wantErrno(t, 0, nbdEIO)
	if err := n.do(nbdRead, 0, make([]byte, 4096)); err != nil {
		t.Errorf("reading what only writes are reserved of: %v", err)
	}
	other("resv-release", "--crkey", "0x5", "--rtype", "1", "--rrela", "0")
	n.wantErrno(t, 0, 0)
	a.finish(t)
}
