package main

import (
	"os"
	"regexp"
	"strings"
	"testing"

	"github.com/nvmeof-go/nvmeof/cmd/nvmeof/internal/fabricoptions"
	"github.com/nvmeof-go/nvmeof/cmd/nvmeof/internal/loopback"
	"github.com/nvmeof-go/nvmeof/rdmatransport/softroce"
)

// TestDemo runs the demonstration with short measurements. Without -long, TestDemoBesideAnother does so instead.
func TestDemo(t *testing.T) {
	if !*long {
		t.Skip("as TestDemoBesideAnother, with -long")
	}
	wantDemo(t)
}

func wantDemo(t *testing.T, args ...string) outcome {
	t.Helper()
	dir := t.TempDir()
	o := command(t, append([]string{"demo", "--runtime", "10ms", "--size", "4MiB", "--dir", dir}, args...)...).want(t, 0,
		"discover   nqn.2026-11.org.example:demo at 127.", "namespace 1 (memory): 4 MiB written, flushed and read back",
		"namespace 2 (file): 4 MiB written, flushed and read back", "through the fabric", "raw UDP")
	lines := strings.Split(strings.TrimSuffix(o.out, "\n"), "\n")
	last := regexp.MustCompile(`^  nvme connect -t rdma -a \d+\.\d+\.\d+\.\d+ -s 4420 -n nqn\.2026-11\.org\.example:demo$`)
	if !last.MatchString(lines[len(lines)-1]) {
		t.Errorf("the last line is %q", lines[len(lines)-1])
	}
	rows := regexp.MustCompile(`(?m)^(memory|file) (rand)?(read|write) of (4|128) KiB, QD (1|16|32) +\d+ .* [um]s$`).FindAllString(o.out, -1)
	if len(rows) != 12 {
		t.Errorf("the table has %d rows, want 12:\n%s", len(rows), o.out)
	}
	if n := regexp.MustCompile(`\((at most 2\.5|at least 0\.6): (holds|does not hold|unknown: [^)]*)\)`).FindAllString(o.out, -1); len(n) != 2 {
		t.Errorf("ratios are missing:\n%s", o.out)
	}
	if left, err := os.ReadDir(dir); err != nil || len(left) > 0 {
		t.Errorf("the demo leaves %v behind, %v", left, err)
	}
	return o
}

func TestDemoUsage(t *testing.T) {
	command(t, "demo", "--size", "1MiB").want(t, exitUsage, "at least 2 MiB")
	command(t, "demo", "--dir", "/proc/nothing").want(t, exitFailed, "select another with --dir")
}

// TestDemoBesideAnother checks that addresses in use are skipped. The receive buffer is the smallest that an ordinary
// user gets on any system.
func TestDemoBesideAnother(t *testing.T) {
	var c fabricoptions.Connection
	other, _, err := c.OpenDevice(loopback.First(), 1, t.Output()) // 127.0.0.2, or the next
	if err != nil {
		t.Fatal(err)
	}
	defer other.Close()
	o := wantDemo(t, "--rcvbuf", "212992")
	if strings.Contains(o.out, "host "+other.(*softroce.Device).Addr().String()+",") {
		t.Errorf("the demo took the address of another endpoint:\n%s", o.out)
	}
}
