package gateways

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"math/rand/v2"
	"net/netip"
	"os/exec"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/nvmeof-go/nvmeof/backend/rbd"
	"github.com/nvmeof-go/nvmeof/test/ceph"
)

var (
	rounds   = flag.Int("rounds", 0, "how many rounds TestRounds does")
	real     = flag.Bool("ceph", false, "over a Ceph cluster instead of etcd: state, namespaces and fences")
	pause    = flag.Duration("pause", 12*time.Second, "how long a gateway is stopped; longer than a lease")
	downTime = flag.Duration("down", 12*time.Second, "how long the monitor of -ceph is stopped while I/O goes on")
	network  = flag.String("network", "127.106.0", "`first` three numbers of the addresses of the loopback network that are used")
	seed     = flag.Uint64("seed", uint64(time.Now().UnixNano()), "of all that is chosen by chance")
)

const (
	serveTime  = 30 * time.Second // limit after a fault until all is served
	returnTime = time.Minute      // limit until all gateways and paths are back
)

// A lab is a group and its hosts.
type lab struct {
	cluster *cluster
	client  *client
	parties *parties
	random  *rand.Rand
	kinds   []kind
	orders  [2][]int // of each class: its kinds in the order of the rounds
	done    []*round
}

// A round is one fault or change, and its effects.
type round struct {
	kind     kind
	victim   string
	began    time.Time
	took     time.Duration // time until all was served
	longest  time.Duration // longest request
	requests int
	errors   []error
	stale    []error
}

// served waits until ANA groups are served, and records how long that has taken since the round began.
func (r *round) served(l *lab, groups []int, by func(*gateway) bool) error {
	err := l.cluster.served(groups, by)
	r.took = time.Since(r.began)
	return err
}

func TestRounds(t *testing.T) {
	if *rounds == 0 {
		t.Skip("without -rounds")
	}
	t.Logf("seed %d", *seed)
	dir := t.TempDir()
	l := &lab{random: rand.New(rand.NewPCG(*seed, 0)), cluster: startCluster(t, dir, newStore(t, dir), 3)}
	l.begin(t, dir)
	for i := range *rounds {
		l.round(t, i, l.next(i))
	}
	l.finish(t)
}

// begin configures the group, and starts the hosts.
func (l *lab) begin(t *testing.T, dir string) {
	l.kinds = slices.Concat(kinds, etcdKinds)
	if *real {
		l.kinds = slices.Concat(kinds, cephKinds)
	}
	l.cluster.configure(t, dir)
	var paths []netip.Addr
	for _, g := range l.cluster.gateways {
		paths = append(paths, g.addr)
	}
	l.client = connect(t, dir, *seed, paths)
	l.client.work()
	l.parties = quarrel(t, paths)
	t.Cleanup(func() { l.client.over.Store(true) }) // in case the test ends early; closing the subsystem ends requests
	if err := l.settle(time.Now()); err != nil {
		l.fatal(t, err)
	}
}

// newStore returns the store that the flags select.
func newStore(t *testing.T, dir string) store {
	t.Helper()
	if *real {
		return needCeph(t, dir)
	}
	return needEtcd(t, dir)
}

// needEtcd returns an etcd. It fails the test if the machine has none.
func needEtcd(t *testing.T, dir string) store {
	t.Helper()
	if _, err := exec.LookPath("etcd"); err != nil {
		t.Fatalf("%v: Debian's package etcd-server has it", err)
	}
	return newEtcd(t, dir)
}

// needCeph returns a Ceph cluster. It fails the test if the machine has no Ceph.
func needCeph(t *testing.T, dir string) store {
	t.Helper()
	switch missing := ceph.Missing(); {
	case !rbd.Built:
		t.Fatal(rbd.ErrNotBuilt)
	case len(missing) > 0:
		t.Fatalf("%s missing: install ceph-mon ceph-mgr ceph-osd ceph-common", strings.Join(missing, ", "))
	}
	return newCeph(t, dir)
}

// round runs one round.
func (l *lab) round(t *testing.T, i int, k kind) {
	r := &round{kind: k}
	l.done = append(l.done, r)
	err := k.do(l, r)
	if err == nil {
		err = l.settle(time.Now())
	}
	if err == nil {
		err = l.parties.further(serveTime)
	}
	l.client.count(r)
	t.Logf("%2d %-24s %-4s %s: %v; longest of %d commands %v; %d errors, %d stale", i+1, k.name, r.victim, k.until,
		r.took.Round(time.Millisecond), r.requests, r.longest.Round(100*time.Microsecond), len(r.errors), len(r.stale))
	for _, err := range slices.Concat(r.errors, r.stale, l.parties.count(), l.cluster.crashed()) {
		t.Error(err)
	}
	if err != nil {
		l.fatal(t, err)
	}
}

// settle waits until the group and the hosts have recovered.
func (l *lab) settle(after time.Time) error {
	err := l.cluster.served(everything(), anyone)
	if err == nil {
		err = l.cluster.within(context.Background(), time.Until(after.Add(serveTime)), func(context.Context) error {
			if !l.client.since(after) {
				return errors.New("workers of the host do not get on")
			}
			return nil
		})
	}
	if err != nil {
		return fmt.Errorf("%v after the fault: %w", serveTime, errors.Join(err, l.client.live()))
	}
	err = l.cluster.within(context.Background(), time.Until(after.Add(returnTime)), func(context.Context) error {
		return errors.Join(l.cluster.alive(), l.client.live())
	})
	if err != nil {
		return fmt.Errorf("%v after the fault: %w", returnTime, err)
	}
	return nil
}

// fatal prints the end of all logs, and ends the test.
func (l *lab) fatal(t *testing.T, err error) {
	t.Helper()
	t.Error(err)
	l.tails(t)
	again := "go test ./test/gateways"
	if s, ok := l.cluster.store.(*cephStore); ok {
		t.Log(s.logs())
		again = "CGO_ENABLED=1 go test -tags rbd ./test/gateways -ceph"
	}
	t.Fatalf("again: %s -rounds %d -seed %d -v", again, *rounds, *seed)
}

// tails prints the end of the gateways' output.
func (l *lab) tails(t *testing.T) {
	t.Helper()
	for _, g := range l.cluster.gateways {
		t.Log(g.tail())
	}
}

// finish reads all blocks once more, and reports the results of the rounds.
func (l *lab) finish(t *testing.T) {
	if !l.client.stop() {
		l.fatal(t, errors.New("commands do not end"))
	}
	l.parties.stop()
	for _, err := range l.parties.count() {
		t.Error(err)
	}
	if l.parties.turns < len(l.done) || l.parties.checked < len(l.done) {
		t.Errorf("hosts have taken a reservation from each other %d times, and were refused %d times", l.parties.turns, l.parties.checked)
	}
	stale := len(l.client.stale)
	clear(l.client.stale)
	for _, w := range l.client.workers {
		w.readAll()
	}
	var last round
	l.client.count(&last)
	for _, err := range slices.Concat(last.errors, last.stale) {
		t.Error(err)
	}
	lost := len(l.client.stale)
	names := map[string]bool{}
	var requests, failed int
	t.Logf("%-24s rounds  %-42s longest command", "", "time: p50, p99, max")
	for _, r := range l.done {
		requests, failed = requests+r.requests, failed+len(r.errors)
		if !names[r.kind.name] {
			names[r.kind.name] = true
			l.report(t, r.kind)
		}
	}
	t.Logf("a reservation has changed hands %d times; %d writes of who had lost it were refused", l.parties.turns, l.parties.checked)
	t.Logf("%d commands, %d errors; of %d blocks %d were read stale, %d are lost", requests+last.requests, failed+len(last.errors), spaces*blocks, stale, lost)
}

// report prints the results of one kind.
func (l *lab) report(t *testing.T, k kind) {
	var took, longest []time.Duration
	for _, r := range l.done {
		if r.kind.name == k.name {
			took, longest = append(took, r.took), append(longest, r.longest)
		}
	}
	t.Logf("%-24s %6d  %-42s %s", k.name, len(took), quantiles(took)+" ("+k.until+")", quantiles(longest))
}

func quantiles(all []time.Duration) string {
	var out []string
	for _, share := range []float64{0.5, 0.99, 1} {
		out = append(out, quantile(all, share).Round(100*time.Microsecond).String())
	}
	return strings.Join(out, " ")
}

func quantile(all []time.Duration, share float64) time.Duration {
	sorted := slices.Sorted(slices.Values(all))
	return sorted[int(share*float64(len(sorted)-1)+0.5)]
}
