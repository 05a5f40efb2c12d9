package target

import (
	"net/netip"
	"runtime"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/nvmeof-go/nvmeof/capsule"
	"github.com/nvmeof-go/nvmeof/nvmeof/auth"
)

// A computation takes a time and has a result.
type computation struct {
	takes  time.Duration
	result auth.State
}

func (c *computation) Compute()          { time.Sleep(c.takes) }
func (c *computation) State() auth.State { return c.result }

// occupy keeps all workers busy until the channel is closed.
func (k *keyed) occupy() (until chan struct{}) {
	until = make(chan struct{})
	n := authWorkers(runtime.GOMAXPROCS(0), k.target.cfg.Shards)
	var begun sync.WaitGroup
	begun.Add(n)
	for range n {
		k.target.authenticator.offer(authJob{netip.MustParseAddr("192.0.2.99"), &computation{}, new(atomic.Bool),
			func() { begun.Done(); <-until }})
	}
	begun.Wait()
	return until
}

// An authBench is an authenticator with one worker, whose jobs take 10 ms each.
type authBench struct {
	authenticator
	mu      sync.Mutex
	order   []string // addresses of completed jobs
	pending sync.WaitGroup
}

const jobTime = 10 * time.Millisecond

func newAuthBench() *authBench {
	b := new(authBench)
	b.start(runtime.GOMAXPROCS(0))
	return b
}

func (b *authBench) job(from string, result auth.State) (ok bool) {
	b.pending.Add(1)
	ok = b.offer(authJob{netip.MustParseAddr(from), &computation{jobTime, result}, new(atomic.Bool), func() {
		b.mu.Lock()
		defer b.mu.Unlock()
		b.order = append(b.order, from)
		b.pending.Done()
	}})
	if !ok {
		b.pending.Done()
	}
	return ok
}

// before returns how many jobs were done before the nth of an address.
func (b *authBench) before(from string, nth int) int {
	for i, at := range b.order {
		if at == from {
			if nth--; nth == 0 {
				return i
			}
		}
	}
	return -1
}

// TestTurnsOfAddresses: no address, nor any number of them, delays another one for long.
func TestTurnsOfAddresses(t *testing.T) {
	for name, f := range map[string]func(*testing.T, *authBench){
		"one address":                   oneAddress,
		"many addresses that fail":      manyAddresses,
		"an address that is known":      knownAddress,
		"a network of many addresses":   manyOfNetwork,
		"the honest host's own address": ownAddress,
		"half of the time":              halfOfTime,
		"without a limit for one":       linesEnd,
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				b := newAuthBench()
				f(t, b)
				b.stop()
				if b.waiting != 0 || len(b.lines) != 0 || len(slices.Concat(b.turns[:]...)) != 0 {
					t.Errorf("left behind: %d jobs, %d lines, turns of %v", b.waiting, len(b.lines), b.turns)
				}
			})
		})
	}
}

// oneAddress: two hundred messages of one address delay another address by one job.
func oneAddress(t *testing.T, b *authBench) {
	for range 200 {
		b.job("192.0.2.66", auth.StateFailure)
	}
	synctest.Wait() // the first is under way
	b.job("192.0.2.7", auth.StateSuccess1)
	b.pending.Wait()
	if n := b.before("192.0.2.7", 1); n > 2 {
		t.Errorf("%d jobs came before the honest host's", n)
	}
}

// manyAddresses: messages of many addresses with failures delay an address without failures by only a few jobs.
func manyAddresses(t *testing.T, b *authBench) {
	attack := func() {
		for i := range 100 {
			b.job(netip.AddrFrom4([4]byte{198, 51, 100, byte(i)}).String(), auth.StateFailure)
		}
	}
	attack()
	b.pending.Wait()
	attack()
	attack()
	synctest.Wait()
	was := len(b.order)
	for range 6 {
		b.job("192.0.2.7", auth.StateSuccess1)
	}
	b.pending.Wait()
	if n := b.before("192.0.2.7", 6) - was; n > 6+3 {
		t.Errorf("%d jobs came before the sixth of the honest host", n)
	}
}

// knownAddress: a known address does not wait for unknown ones, but these get their turns too.
func knownAddress(t *testing.T, b *authBench) {
	b.job("192.0.2.7", auth.StateSuccess1)
	b.pending.Wait()
	for i := range 100 {
		b.job(netip.AddrFrom4([4]byte{198, 51, 100, byte(i)}).String(), auth.StateFailure)
	}
	synctest.Wait()
	was := len(b.order)
	for range 20 {
		b.job("192.0.2.7", auth.StateSuccess1)
	}
	b.pending.Wait()
	if n := b.before("192.0.2.7", 4) - was; n > 4+2 {
		t.Errorf("%d jobs came before the third of the known host", n)
	}
	if n := b.before("192.0.2.7", 20) - was; n < 20+20/authFavour-2 {
		t.Errorf("only %d jobs came before the last of the known host", n)
	}
}

// manyOfNetwork: an IPv6 network counts as one address, except for its known addresses.
func manyOfNetwork(t *testing.T, b *authBench) {
	b.job("2001:db8:6:6::1", auth.StateFailure)
	b.job("2001:db8:7:7::1", auth.StateSuccess1)
	b.pending.Wait()
	for i := range 100 {
		b.job(netip.AddrFrom16([16]byte{0x20, 1, 0xd, 0xb8, 0, 6, 0, 6, 15: byte(i + 2)}).String(), auth.StateFailure)
	}
	synctest.Wait()
	b.job("2001:db8:7:7::2", auth.StateSuccess1)
	b.pending.Wait()
	if n := b.before("2001:db8:7:7::2", 1); n > 2+2 {
		t.Errorf("%d jobs came before the honest host's", n)
	}
}

// ownAddress: a host gets its turn even if others at its own address fail.
func ownAddress(t *testing.T, b *authBench) {
	const at = "192.0.2.66"
	b.job(at, auth.StateFailure)
	b.pending.Wait()
	for range 50 {
		b.job(at, auth.StateFailure)
	}
	done := make(chan time.Duration, 1)
	start := time.Now()
	b.offer(authJob{netip.MustParseAddr(at), &computation{jobTime, auth.StateSuccess1}, new(atomic.Bool), func() { done <- time.Since(start) }})
	for range 200 { // however many follow
		b.job(at, auth.StateFailure)
	}
	if d := <-done; d > 53*2*jobTime {
		t.Errorf("the host's turn came after %v", d)
	}
	b.authenticator.mu.Lock()
	s := b.reputation.standing(netip.MustParseAddr(at), time.Now())
	b.authenticator.mu.Unlock()
	if s != known {
		t.Error("the address is suspect though a host has succeeded from it")
	}
	b.pending.Wait()
}

// halfOfTime: addresses with failures leave half of the time to the shards.
func halfOfTime(t *testing.T, b *authBench) {
	b.job("192.0.2.66", auth.StateFailure)
	b.pending.Wait()
	start := time.Now()
	for range 100 {
		b.job("192.0.2.66", auth.StateFailure)
	}
	b.pending.Wait()
	if d := time.Since(start); d < 199*jobTime {
		t.Errorf("those that fail used %v of %v", 100*jobTime, d)
	}
}

// linesEnd: when the jobs of an address are done, its line is removed.
func linesEnd(t *testing.T, b *authBench) {
	n := 0
	for b.job("192.0.2.66", auth.StateFailure) {
		n++
	}
	if n > maxAuthLine+1 {
		t.Errorf("%d jobs of one address wait", n)
	}
	for i := range 2 * maxAuthJobs {
		if !b.job(netip.AddrFrom4([4]byte{10, 0, byte(i >> 8), byte(i)}).String(), auth.StateFailure) {
			t.Fatalf("address %d is refused its first", i)
		}
	}
	b.pending.Wait()
	if len(b.reputation) > maxReputation {
		t.Errorf("%d addresses are remembered", len(b.reputation))
	}
	time.Sleep(suspicion)
	b.job("192.0.2.66", auth.StateSuccess1)
	b.pending.Wait()
}

// TestAuthWorkers: the authenticator leaves the shards their processors.
func TestAuthWorkers(t *testing.T) {
	for _, c := range []struct{ processors, shards, want int }{
		{1, 1, 1}, {2, 1, 1}, {4, 2, 1}, {8, 4, 2}, {16, 8, 4}, {16, 14, 2}, {16, 16, 1}, {64, 4, 16},
	} {
		if got := authWorkers(c.processors, c.shards); got != c.want {
			t.Errorf("%d processors, %d shards: %d workers, want %d", c.processors, c.shards, got, c.want)
		}
	}
}

// TestFalseLogins: a hundred connections of one address without the key delay a host that has it by a few of their
// messages, not by all. Malformed messages are refused without a computation.
func TestFalseLogins(t *testing.T) {
	k := newKeyed(t)
	const attackers = 100
	var answered atomic.Int64
	var ended sync.WaitGroup
	var all []*hostQueue
	for range attackers {
		h, _ := k.connect(0, capsule.ControllerIDDynamic)
		h.q.remote = netip.MustParseAddrPort("192.0.2.66:4791")
		all = append(all, h)
	}
	host, _ := k.connect(0, capsule.ControllerIDDynamic)
	until := k.occupy()
	for _, h := range all {
		c := h.start(authSendCommand(k.exchange().Pending()))
		ended.Go(func() { <-c.response; answered.Add(1) })
	}
	for _, h := range all {
		h.call(func() {}) // all wait
	}
	x := k.exchange()
	first := host.start(authSendCommand(x.Pending()))
	host.call(func() {}) // behind all others
	close(until)
	<-first.response
	if n := answered.Load(); n == attackers { // TestTurnsOfAddresses checks how many are a few
		t.Error("all messages of another address were processed before the host's")
	}
	x.Sent()
	if host.authenticate(x); x.State() != auth.StateDone {
		t.Fatal(x.Err())
	}
	ended.Wait()

	until = k.occupy()
	for _, h := range all { // nothing waits for the authenticator any more
		h.wantOK(authSendCommand([]byte{1, 2, 0, 0, 0xff, 0xff, 0, 0}))
	}
	close(until)
	k.wantCounts(AuthCounts{Succeeded: 1, Failed: attackers})
	for _, h := range append(all, host) {
		h.lose()
	}
	if n := k.target.waiting.count(); n != 0 {
		t.Errorf("%d connections still count as unproven", n)
	}
}
