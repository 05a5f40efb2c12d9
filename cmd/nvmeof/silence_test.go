package main

import (
	"testing"
	"time"
)

// TestSilentAddress: an address at which nobody answers is told of soon, and no obstacle
// where another one leads to the subsystem.
func TestSilentAddress(t *testing.T) {
	beside(t)
	const silent = "127.63.11.9"
	s := startTarget(t, "--export", "mem:1MiB", "--allow-any-host")
	start := time.Now()
	alone := startCommand(t, "connect", "-t", "rdma", "-a", silent, "-n", testNQN)
	a := startAttach(t, s, "-a", silent+","+s.addr)
	if d := time.Since(start); d > 10*time.Second { // of 20 and more until an attempt ends
		t.Errorf("with one address that answers it took %v to begin", d)
	}
	a.errOut.await(t, "nvmeof: "+silent+": connecting: no answer yet\n")
	alone.errOut.await(t, "nvmeof: no connection to "+silent+":4420 after 3s; still trying: ")
	a.stop()
	if err := <-a.ended; err != nil {
		t.Errorf("after a signal: %v", err)
	}
	alone.stop()
	alone.wantEnd(exitInterrupted)
}
