package main

import (
	"context"
	"fmt"
	"net/netip"
	"os"
	"os/exec"
	"regexp"
	"runtime"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/nvmeof-go/nvmeof/backend/memory"
	"github.com/nvmeof-go/nvmeof/nvmeof"
	"github.com/nvmeof-go/nvmeof/nvmeof/target"
	"github.com/nvmeof-go/nvmeof/rdmatransport/softroce"
)

const testNQN = "nqn.2026-11.io.example:test"

// some selects attacks that each leave a different kind of resource.
const some = "^(log-pages|reads|mutate-capsules)$"

func TestMain(m *testing.M) {
	if os.Getenv(besideEnv) != "" { // started by a test
		if err := serveBeside(context.Background(), os.Stdin, os.Stdout); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		os.Exit(0)
	}
	os.Exit(m.Run())
}

// serve starts a target at an address of this machine.
func serve(t *testing.T, at netip.Addr) (*target.Target, *softroce.Device) {
	t.Helper()
	must := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	device, err := softroce.Open(softroce.Config{Addr: at})
	must(err)
	tgt, err := target.New(target.Config{Device: device, Polling: nvmeof.PollNever})
	must(err)
	store, err := memory.New(memory.Config{Size: 2 << 20})
	must(err)
	t.Cleanup(func() { must(tgt.Close()); must(device.Close()); must(store.Close()) })
	sub, err := tgt.AddSubsystem(target.SubsystemConfig{NQN: testNQN})
	must(err)
	sub.AllowAnyHost(true)
	_, err = sub.AddNamespace(target.NamespaceConfig{Store: store})
	must(err)
	_, err = tgt.Listen(netip.AddrPortFrom(at, nvmePort))
	must(err)
	return tgt, device
}

// attackTest runs some attacks for some tens of milliseconds each. On a machine that runs other tests the honest host's
// rate means nothing, but it must be served, newcomers must connect, and nothing must be left over.
func attackTest(t *testing.T, at netip.Addr, from []netip.Addr) {
	tgt, device := serve(t, at)
	o := options{
		target: netip.AddrPortFrom(at, nvmePort), nqn: testNQN, honest: "library", from: from, seconds: 40 * time.Millisecond, rest: 20 * time.Second,
		seed: 1, only: regexp.MustCompile(some), rate: 2000, polite: true, bounds: bounds{newcomer: 10 * time.Second},
	}
	a, err := newArena(t.Context(), &o)
	if err != nil {
		t.Fatal(err)
	}
	defer a.close()
	a.victim.extra = func() []holding {
		pairs := int64(0)
		for _, s := range device.Stats() {
			pairs += int64(s.QueuePairs)
		}
		return []holding{{name: "controllers", amount: int64(len(tgt.Controllers()))}, {name: "queue pairs", amount: pairs},
			{name: "goroutines", amount: int64(runtime.NumGoroutine())}}
	}
	for _, x := range o.selected() {
		r, err := a.suffer(t.Context(), x)
		if err != nil {
			t.Fatalf("%s: %v", x.name, err)
		}
		if r.sent == 0 || len(r.faults) > 0 || r.skipped != "" {
			t.Errorf("%s: %d packets, %v %v", x.name, r.sent, r.faults, r.left)
		}
	}
}

func TestAttacks(t *testing.T) {
	attackTest(t, netip.MustParseAddr("127.77.0.1"), nil)
}

// inNamespace is the environment variable that says that the test runs in a network namespace of its own.
const inNamespace = "GREMLIN_TEST_NAMESPACE"

// TestAttacksIPv6 runs the attacks at ::1. There is only one loopback address of IPv6, so the others are added in a
// network namespace.
func TestAttacksIPv6(t *testing.T) {
	if os.Getenv(inNamespace) != "" {
		var from []netip.Addr
		for i := range 8 {
			from = append(from, netip.MustParseAddr(fmt.Sprintf("fd00::%d", i+2)))
		}
		attackTest(t, netip.IPv6Loopback(), from)
		return
	}
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	cmd := exec.CommandContext(ctx, "sh", "-c", `ip link set lo up || exit 99; for i in 2 3 4 5 6 7 8 9; do ip address add fd00::$i/128 dev lo nodad || exit 99; done
exec "$0" -test.run '^TestAttacksIPv6$'`, os.Args[0])
	cmd.Env = append(os.Environ(), inNamespace+"=1")
	cmd.SysProcAttr = &syscall.SysProcAttr{
		Cloneflags:  syscall.CLONE_NEWUSER | syscall.CLONE_NEWNET,
		UidMappings: []syscall.SysProcIDMap{{ContainerID: 0, HostID: os.Getuid(), Size: 1}},
		GidMappings: []syscall.SysProcIDMap{{ContainerID: 0, HostID: os.Getgid(), Size: 1}},
	}
	out, err := cmd.CombinedOutput()
	switch {
	case err == nil:
	case cmd.ProcessState == nil || cmd.ProcessState.ExitCode() == 99 || cmd.ProcessState.ExitCode() == 127:
		t.Skipf("needs a network namespace with IPv6: %v %s", err, strings.TrimSpace(string(out)))
	default:
		t.Errorf("%v\n%s", err, out)
	}
}

// TestHostile lets our host meet malices that each end it in a different way.
func TestHostile(t *testing.T) {
	var out strings.Builder
	o := options{listen: netip.MustParseAddrPort("127.77.1.1:4420"), host: true, seconds: 5 * time.Second, seed: 1,
		only: regexp.MustCompile("^(hang-up|twice|no-data|more-data|too-late|2.64-blocks|endless-list|reject)$")}
	if err := listen(t.Context(), o, &out); err != nil {
		t.Errorf("%v\n%s", err, out.String())
	}
}

// TestSameSeed: the same seed makes the same changes.
func TestSameSeed(t *testing.T) {
	seen := map[string]bool{}
	for range 2 {
		b := make([]byte, 64)
		for i := range 100 {
			b = change(newRandom(7, "mutate-packets"), append(b[:0], make([]byte, 64+i)...), 0)
		}
		seen[string(b)] = true
	}
	if len(seen) != 1 {
		t.Error("one seed made two changes")
	}
}
