package guest

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"runtime"
	"strings"
	"sync/atomic"
	"testing"
	"time"
)

var boots = flag.Bool("guest", false, "boot a Debian guest under QEMU; builds its image when missing, which needs root")

func TestImageNameFollowsRecipe(t *testing.T) {
	dir := t.TempDir()
	t.Setenv(CacheEnv, dir)
	m, err := Find()
	if err != nil {
		t.Fatal(err)
	}
	if !strings.HasPrefix(m.Dir(), dir+"/debian13-") {
		t.Errorf("Dir() = %q, want below %q", m.Dir(), dir)
	}
	if m.Built() {
		t.Error("an empty cache has an image")
	}
	saved := initScript
	defer func() { initScript = saved }()
	initScript += "# changed\n"
	if other, _ := Find(); other == m {
		t.Error("a changed init script keeps the image")
	}
}

func TestBuildWithoutRoot(t *testing.T) {
	if os.Geteuid() == 0 {
		t.Skip("runs as root")
	}
	t.Setenv(CacheEnv, t.TempDir())
	m, err := Find()
	if err != nil {
		t.Fatal(err)
	}
	if err := m.Build(t.Context(), t.Output()); err == nil || !strings.Contains(err.Error(), "root") {
		t.Errorf("Build without root: %v, want an error that says so", err)
	}
}

func bootFor(t *testing.T, cfg Config) *Guest {
	t.Helper()
	if !*boots {
		t.Skip("boots a virtual machine: go test ./test/guest -guest")
	}
	m, err := Find()
	if err != nil {
		t.Fatal(err)
	}
	if err := m.Build(t.Context(), t.Output()); err != nil {
		t.Fatal(err)
	}
	cfg.Share, cfg.Log = t.TempDir(), t.Output()
	g, err := Boot(t.Context(), m, cfg)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { g.Close() })
	return g
}

func TestGuest(t *testing.T) {
	g := bootFor(t, Config{CPUs: 4})
	run := func(limit time.Duration, script string) (string, error) {
		return g.Run(t.Context(), limit, script)
	}
	if out, err := run(10*time.Second, "echo one; nproc; uname -r"); err != nil || !strings.HasPrefix(out, "one\n4\n6.12.") {
		t.Errorf("Run: %q, %v", out, err)
	}
	var exit *ExitError
	if out, err := run(10*time.Second, "printf oops >&2; exit 3"); !errors.As(err, &exit) || exit.Status != 3 || strings.TrimSpace(out) != "oops" {
		t.Errorf("failing script: %q, %v", out, err)
	}
	if _, err := run(2*time.Second, "sleep 100"); !errors.As(err, &exit) || exit.Status != 124 {
		t.Errorf("endless script: %v, want status 124", err)
	}
	for _, module := range []string{"rdma_rxe", "nvme-rdma", "nvmet-rdma", "sch_netem", "cls_u32", "null_blk"} {
		if _, err := run(20*time.Second, "modprobe "+module); err != nil {
			t.Errorf("module %s: %v", module, err)
		}
	}
	if _, err := run(20*time.Second, "echo o >/proc/sysrq-trigger; sleep 60"); err == nil || errors.As(err, &exit) {
		t.Errorf("guest switched off: %v, want the guest to be lost", err)
	}
	if _, err := g.Run(context.Background(), time.Second, "true"); err == nil {
		t.Error("a lost guest runs scripts")
	}
}

// TestInstructionClock: a program takes the same time in the guest on an idle and on a busy machine.
func TestInstructionClock(t *testing.T) {
	g := bootFor(t, Config{CPUs: 1, InstructionClock: true})
	took := func() (seconds float64) {
		t.Helper()
		out, err := g.Run(t.Context(), time.Minute, `TIMEFORMAT=%U; time perl -e 'my $n = 0; $n += $_ for 1 .. 2e6'`)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := fmt.Sscan(out, &seconds); err != nil {
			t.Fatalf("%q: %v", out, err)
		}
		return seconds
	}
	took() // the first run reads the disk
	idle := took()
	var done atomic.Bool
	for range 2 * runtime.NumCPU() {
		go func() {
			for !done.Load() {
			}
		}()
	}
	busy := took()
	done.Store(true)
	t.Logf("%.3f s of the guest, %.3f s beside others", idle, busy)
	if busy < 0.95*idle || busy > 1.05*idle {
		t.Errorf("a program takes %.3f s on an idle machine and %.3f s on a busy one", idle, busy)
	}
}
