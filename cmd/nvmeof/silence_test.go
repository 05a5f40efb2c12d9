package main

import (
	"net"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// TestSilentTarget checks that a target that does not answer its administrator is reported soon. A user who gives up a
// change, or whose target ends, is told that the change may have been made.
func TestSilentTarget(t *testing.T) {
	beside(t)
	socket := filepath.Join(t.TempDir(), "s")
	setenv(t, "NVMEOF_SOCKET", socket)
	l, err := net.Listen("unix", socket)
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	ls := startCommand(t, "ls")
	add := startCommand(t, "namespace", "add", "2", "-n", testNQN, "--memory", "1MiB")
	remove := startCommand(t, "namespace", "remove", "2", "-n", testNQN)
	for _, p := range []*process{ls, add, remove} {
		p.errOut.await(t, "nvmeof: the target at "+socket+" has not answered for 2s; still waiting\n")
	}
	ls.stop()
	ls.wantEnd(exitInterrupted)
	if strings.Contains(ls.errOut.String(), "change") {
		t.Errorf("ls changes nothing: %s", ls.errOut)
	}
	add.stop()
	add.wantEnd(exitInterrupted, "the target may have made the change")
	l.Close() // and the connections that it has not accepted
	remove.wantEnd(exitConnection, "may have made the change")
}

// TestSilentAddress checks that an address that does not answer is reported soon, and does not prevent the use of
// another address of the subsystem.
func TestSilentAddress(t *testing.T) {
	beside(t)
	const silent = "127.63.11.9"
	s := startTarget(t, "--export", "mem:1MiB", "--allow-any-host")
	start := time.Now()
	var others []*process
	for _, line := range []string{"list -a SILENT", "discover -a SILENT", "id-ctrl -a SILENT -n NQN", "bench -a SILENT -n NQN", "bench -a SILENT -n NQN -c 1", "connect-all -a SILENT"} {
		others = append(others, startCommand(t, words(strings.NewReplacer("SILENT", silent, "NQN", testNQN).Replace(line))...))
	}
	for _, line := range []string{"write-bw SILENT", "ping -c -a SILENT", "hello SILENT"} {
		others = append(others, startCommand(t, append([]string{"rdma"}, words(strings.ReplaceAll(line, "SILENT", silent))...)...))
	}
	alone := startCommand(t, "connect", "-t", "rdma", "-a", silent, "-n", testNQN)
	following := startCommand(t, "connect-all", "-a", silent, "--persistent")
	a := startAttach(t, s, "-a", silent+","+s.addr)
	if d := time.Since(start); d > 10*time.Second { // an attempt takes 20 s or more
		t.Errorf("with one address that answers it took %v to begin", d)
	}
	a.errOut.await(t, "nvmeof: "+silent+": connecting: no answer yet\n")
	alone.errOut.await(t, "nvmeof: no connection to "+silent+":4420 after 2s; still trying: ")
	for _, o := range others {
		o.errOut.await(t, "nvmeof: no connection to "+silent+":")
		o.errOut.await(t, " after 2s; still trying: ")
		o.stop()
		o.wantEnd(exitInterrupted)
	}
	following.errOut.await(t, "nvmeof: no connection to "+silent+":4420 after 2s; still trying: ")
	following.stop()
	following.wantEnd(0)
	a.stop()
	if err := <-a.ended; err != nil {
		t.Errorf("after a signal: %v", err)
	}
	alone.stop()
	alone.wantEnd(exitInterrupted)
}
