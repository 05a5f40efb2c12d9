package main

import (
	"encoding/json"
	"path/filepath"
	"testing"
	"time"

	"github.com/nvmeof-go/nvmeof/cmd/nvmeof/internal/activity"
)

// startBusy starts a target with a socket, and a host that reads from it at a limited rate until the test ends.
func startBusy(t *testing.T) (s *testTarget, socket string) {
	t.Helper()
	socket = filepath.Join(t.TempDir(), "s")
	s = startTarget(t, "--export", "mem:1MiB", "--allow-any-host", "--socket", socket)
	startCommand(t, "bench", "-t", "rdma", "-a", s.addr, "--host-traddr", loopbackAddress(), "-n", testNQN, "--rw", "randread", "--bs", "4k", "--rate_iops", "200", "--runtime", "5m")
	return s, socket
}

// TestTop checks that top --once shows the activity between two readings, and the errors if it cannot.
func TestTop(t *testing.T) {
	beside(t)
	_, socket := startBusy(t)
	var r activity.Report
	for deadline := time.Now().Add(30 * time.Second); r.Total.IOPS == 0; {
		if err := json.Unmarshal([]byte(command(t, "top", "--once", "-o", "json", "--socket", socket).want(t, 0).out), &r); err != nil {
			t.Fatal(err)
		}
		if time.Now().After(deadline) {
			t.Fatalf("nothing happens: %+v", r)
		}
	}
	n := &r.Namespaces[0]
	if n.Subsystem != testNQN || n.IOPS <= 0 || n.ReadBytes <= 0 || n.Command.P50 <= 0 || n.Command.P99 < n.Command.P50 || len(r.Hosts) != 1 ||
		r.Hosts[0].IOPS <= 0 || r.Total.Busy <= 0 || r.Seconds < 0.5 || r.SinceStart || r.Total.ToHosts.Count == 0 || r.Counted("packets_in") <= 0 {
		t.Errorf("report %+v", r)
	}
	// If the output is not a terminal, no flag is needed.
	command(t, "top", "--view", "hosts", "--filter", "UUID:", "--socket", socket).want(t, 0, " IOPS  read ", "p50/p99 all ", "\nhosts\nHOST ", "uuid:")
	for line, want := range map[string]string{
		"top --interval 10ms": "--interval 10ms: want at least 1s, the interval at which a target reads its counters",
		"top --view host":     "did you mean hosts?",
		"top -o yaml":         "want one of json, normal",
	} {
		command(t, words(line)...).want(t, exitUsage, want)
	}
	command(t, "top", "--socket", socket+"x").want(t, exitConnection, "no target responds at")
}

// TestTopOfHost checks that top recognizes the sockets of hosts.
func TestTopOfHost(t *testing.T) {
	beside(t)
	s := startTarget(t, "--export", "mem:1MiB", "--allow-any-host")
	a := startAttach(t, s)
	command(t, "top", "--socket", a.socket).want(t, exitFailed, "is a disk of nvmeof attach or connect, which is a host: top shows targets")
	startCommand(t, "connect", "-a", s.addr, "-n", testNQN).out.await(t, "nvme0")
	found, err := filepath.Glob(filepath.Join(environment(t)["NVMEOF_RUN_DIR"], "*.sock"))
	if err != nil || len(found) == 0 {
		t.Fatalf("%v, %v: no sockets", found, err)
	}
	command(t, "top", "--socket", found[0]).want(t, exitFailed, "is a process of nvmeof connect, which is a host")
}
