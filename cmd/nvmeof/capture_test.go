package main

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sys/unix"
)

// TestCaptureCommand checks that the traffic of a host is in the file, also with tshark if it is installed.
func TestCaptureCommand(t *testing.T) {
	beside(t)
	ownSocket(t)
	s := startTarget(t, "--export", "mem:1MiB", "--allow-any-host")
	file := filepath.Join(t.TempDir(), "c.pcapng")
	all := startCommand(t, "capture", "-w", file)
	all.errOut.await(t, "nvmeof: capturing\n")
	command(t, "capture", "-w", "-").want(t, exitFailed, "another capture is running")
	startAttach(t, s, "-a", s.addr)
	first := startCommand(t, "trace")
	first.out.await(t, "TIME")
	all.stop()
	all.wantEnd(0, " packets captured, 0 dropped by the target")
	first.stop()
	first.wantEnd(0)
	other := startCommand(t, "capture", "-w", "-", "--seconds", "600", "--host", "nqn.2014-08.org.nvmexpress:uuid:7d1c5e2e-6a5b-4f0c-9d3e-0a4b8c2f1e90")
	other.errOut.await(t, "nvmeof: capturing\n")
	other.stop()
	other.wantEnd(0, "nvmeof: 0 packets captured")
	command(t, "capture").want(t, exitUsage, "-w is missing")
	command(t, "capture", "-w", file, "--qpn", "x").want(t, exitUsage, "option qpn is given as x")
	command(t, "capture", "-w", filepath.Join(file, "c"), "--count", "1").want(t, exitFailed, "not a directory")
	open := filepath.Join(t.TempDir(), "open")
	if err := os.WriteFile(open, make([]byte, 1<<20), 0o644); err != nil {
		t.Fatal(err)
	}
	command(t, "capture", "-w", open, "--seconds", "1").want(t, 0, "packets captured")
	if info, err := os.Stat(open); err != nil || info.Mode() != 0o600 || info.Size() >= 1<<20 {
		t.Errorf("a file that others could read is %v, %v", info.Mode(), err)
	}
	fifo := filepath.Join(t.TempDir(), "fifo")
	if err := unix.Mkfifo(fifo, 0o600); err != nil {
		t.Fatal(err)
	}
	command(t, "capture", "-w", fifo).want(t, exitFailed, "start its reader first")
	text, err := os.ReadFile(file)
	if err != nil || !strings.Contains(string(text), ", subsystem "+testNQN+", controller ") {
		t.Fatalf("%v: no names in a file of %d bytes", err, len(text))
	}
	tshark, err := exec.LookPath("tshark")
	if err != nil || !*long {
		t.Skip("tshark is not installed, or takes as long as all the rest: -long")
	}
	out, err := exec.Command(tshark, "-r", file, "-Y", "infiniband", "-T", "fields", "-e", "infiniband.bth.destqp", "-e", "infiniband.cm.req").Output()
	if err != nil || !strings.HasPrefix(string(out), "0x000001\t0x") || strings.Count(string(out), "\n") < 20 {
		t.Errorf("%v: tshark finds\n%s", err, out)
	}
}

// TestCaptureOfHost checks that the traffic of connect can be captured in its process.
func TestCaptureOfHost(t *testing.T) {
	beside(t)
	s := startTarget(t, "--export", "mem:1MiB", "--allow-any-host")
	c := startCommand(t, s.at("connect", "-n", testNQN, "--no-publish", "--keep-alive-tmo", "2")...)
	c.out.await(t, "connecting to device: nvme0\n")
	file := filepath.Join(t.TempDir(), "h.pcapng")
	command(t, "capture", "--device", "nvme0", "-w", file, "-c", "2").want(t, 0, "2 packets captured") // a keep alive
	if text, err := os.ReadFile(file); err != nil || !strings.Contains(string(text), ", subsystem "+testNQN+", nvme0: controller ") {
		t.Errorf("%v: no names in a file of %d bytes", err, len(text))
	}
	command(t, "capture", "--device", "nvme7", "-w", file).want(t, exitFailed, "no such device")
	command(t, "capture", "--device", "nvme0", "--socket", "x", "-w", file).want(t, exitUsage, "exclude each other")
	command(t, "capture", "--device", "nvme0", "--host", testNQN, "-w", file).want(t, exitUsage, "option host")
	all := startCommand(t, "capture", "--device", "/dev/nvme0n1", "-w", file)
	all.errOut.await(t, "nvmeof: capturing\n")
	command(t, "capture", "--device", "nvme0", "-w", file).want(t, exitFailed, "another capture is running: end it first")
	c.stop()
	c.wantEnd(0)
	all.wantEnd(0)
}

// TestTraceCommand checks that commands are shown when they are answered.
func TestTraceCommand(t *testing.T) {
	beside(t)
	ownSocket(t)
	s := startTarget(t, "--export", "mem:1MiB", "--allow-any-host")
	lines := startCommand(t, "trace", "-c", "5")
	lines.out.await(t, "TIME")
	command(t, "trace", "-o", "json").want(t, exitFailed, "another trace is running: end it")
	command(t, "id-ns", "-t", "rdma", "-a", s.addr, "-n", testNQN, "--namespace-id", "1").want(t, 0)
	lines.wantEnd(0)
	if text := lines.out.String(); strings.Count(text, "\n") != 6 || !strings.Contains(text, "Connect") || !strings.Contains(text, "success (0/00)") {
		t.Errorf("shown is\n%s", text)
	}
	command(t, "trace", "-o", "yaml").want(t, exitUsage, "want table or json")
	command(t, "trace", "--slower-than", "5").want(t, exitUsage, "a duration, as in 5ms")
	as := startCommand(t, "trace", "--nsid", "1", "--count", "100", "-o", "json")
	flush := func() {
		command(t, "flush", "-t", "rdma", "-a", s.addr, "-n", testNQN, "--namespace-id", "1").want(t, 0)
	}
	for !strings.Contains(as.out.String(), "\n") { // until it has started, and a command was traced
		flush()
	}
	as.stop()
	as.wantEnd(0)
	if !strings.Contains(as.out.String(), `"opcode":"Flush","nsid":1,"status":"success (0/00)"`) {
		t.Errorf("shown is %s", as.out)
	}
}
