package main

import (
	"strings"
	"testing"
	"time"
)

// TestSilentAddress: an address at which nothing answers is reported soon, and no obstacle
// where another one leads to the subsystem.
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
	if d := time.Since(start); d > 10*time.Second { // of 20 and more until an attempt ends
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
