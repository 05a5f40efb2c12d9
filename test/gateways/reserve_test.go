package gateways

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/nvmeof-go/nvmeof/capsule"
	"github.com/nvmeof-go/nvmeof/nvmeof"
	"github.com/nvmeof-go/nvmeof/nvmeof/host"
	"github.com/nvmeof-go/nvmeof/rdmatransport/softroce"
)

const (
	reserved    = spaces + 1 // the namespace that two hosts reserve in turn
	attemptTime = 3 * time.Second
	// lateTime is how long a command without an answer may still be executed: a gateway waits 8 s for the store.
	lateTime = 15 * time.Second
)

// Parties are two hosts that preempt each other's reservation, whatever happens to gateways. Once a command for the
// reservation was answered, its holder may write and the other host may not.
type parties struct {
	all   [2]*party
	over  atomic.Bool
	ended sync.WaitGroup

	mu       sync.Mutex // guards what follows
	turns    int
	checked  int // writes of the host that has lost the reservation
	findings []error
}

// A party is a host with a connection to each gateway that it can reach.
type party struct {
	host    *host.Host
	options host.Options
	key     capsule.ReservationKey
	paths   []netip.Addr
	open    map[netip.Addr]*way
	unknown time.Time // when a command for the reservation last had an unknown result
}

// A way is a connection to a gateway.
type way struct {
	ctl *host.Controller
	n   *host.Namespace
}

// quarrel starts both hosts.
func quarrel(t *testing.T, paths []netip.Addr) *parties {
	ps := new(parties)
	for i := range ps.all {
		device, err := softroce.Open(softroce.Config{Addr: netip.MustParseAddr(address(101 + i))})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { device.Close() })
		h, err := host.New(host.Config{Device: device, Shards: 1, Polling: nvmeof.PollNever})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { h.Close() })
		ps.all[i] = &party{host: h, key: capsule.ReservationKey(0x10 + i), paths: paths, open: map[netip.Addr]*way{},
			options: host.Options{NQN: nqn, HostNQN: nvmeof.NQN(fmt.Sprintf("nqn.2014-08.org.example:party%d", i)), HostID: capsule.HostID{byte(i + 1)}, KeepAliveTmo: 2 * time.Second, NrIOQueues: 1}}
	}
	ps.ended.Go(ps.run)
	t.Cleanup(ps.stop) // before the hosts are closed
	return ps
}

func (ps *parties) stop() {
	ps.over.Store(true)
	ps.ended.Wait()
}

// further waits until the reservation has changed hands twice.
func (ps *parties) further(limit time.Duration) error {
	turns := func() int {
		ps.mu.Lock()
		defer ps.mu.Unlock()
		return ps.turns
	}
	for end, want := time.Now().Add(limit), turns()+2; turns() < want; time.Sleep(10 * time.Millisecond) {
		if time.Now().After(end) {
			return fmt.Errorf("for %v no host could take the reservation from the other", limit)
		}
	}
	return nil
}

// count returns the findings since the last call.
func (ps *parties) count() (findings []error) {
	ps.mu.Lock()
	defer ps.mu.Unlock()
	findings, ps.findings = ps.findings, nil
	return findings
}

func (ps *parties) run() {
	for i := 0; !ps.over.Load(); i++ {
		has, lost := ps.all[i%2], ps.all[1-i%2]
		if !ps.take(has, lost) {
			return
		}
		findings, n := ps.judge(has, lost)
		ps.mu.Lock()
		ps.turns++
		ps.checked += n
		ps.findings = append(ps.findings, findings...)
		ps.mu.Unlock()
		time.Sleep(20 * time.Millisecond)
	}
}

// take acquires the reservation for a party. It returns false if the parties were stopped before.
func (ps *parties) take(has, lost *party) bool {
	for !ps.over.Load() {
		for _, at := range has.paths {
			began := time.Now()
			err := has.command(at, func(ctx context.Context, n *host.Namespace) error {
				r := n.Reservations()
				if err := r.Register(ctx, has.key, host.RegisterOptions{IgnoreKey: true, Persist: host.PersistAlways}); err != nil {
					return err
				}
				err := r.Preempt(ctx, has.key, lost.key, capsule.ReservationExclusiveAccess, true)
				if errors.Is(err, host.ErrReserved) { // the other host is not registered
					err = r.Acquire(ctx, has.key, capsule.ReservationExclusiveAccess)
				}
				return err
			})
			if err == nil {
				return true
			}
			// A gateway that does not serve the namespace answers at once; one whose store did not answer does so
			// later.
			if !answered(err) || time.Since(began) > 200*time.Millisecond {
				has.unknown = time.Now()
			}
		}
		time.Sleep(20 * time.Millisecond)
	}
	return false
}

// judge has both hosts write through every gateway. It returns how many writes of the host that has lost the
// reservation were refused.
func (ps *parties) judge(has, lost *party) (findings []error, n int) {
	write := func(p *party, at netip.Addr) error {
		return p.command(at, func(ctx context.Context, n *host.Namespace) error {
			_, err := n.WriteAtContext(ctx, make([]byte, blockSize), 0)
			return err
		})
	}
	for _, at := range has.paths {
		switch err := write(lost, at); {
		case errors.Is(err, host.ErrReserved):
			n++
		case err == nil && time.Since(lost.unknown) > lateTime: // otherwise it may have got the reservation back
			findings = append(findings, fmt.Errorf("%s writes through %v although %s has preempted it", lost.options.HostNQN, at, has.options.HostNQN))
		}
		if err := write(has, at); errors.Is(err, host.ErrReserved) && time.Since(lost.unknown) > lateTime {
			findings = append(findings, fmt.Errorf("%s has the reservation, and may not write through %v: %w", has.options.HostNQN, at, err))
		}
	}
	return findings, n
}

// answered reports whether a gateway has refused something. After any other error, as of the connection, the command
// may have been executed.
func answered(err error) bool { return errors.As(err, new(*host.StatusError)) }

// command executes f through one gateway.
func (p *party) command(at netip.Addr, f func(context.Context, *host.Namespace) error) error {
	ctx, cancel := context.WithTimeout(context.Background(), attemptTime)
	defer cancel()
	w := p.open[at]
	if w == nil {
		o := p.options
		o.Traddr = at
		c, err := p.host.Connect(ctx, o)
		if err != nil {
			return err
		}
		n, err := c.Namespace(ctx, reserved)
		if err != nil {
			return errors.Join(err, c.Disconnect(ctx))
		}
		w = &way{c, n}
		p.open[at] = w
	}
	err := f(ctx, w.n)
	if err != nil && !answered(err) {
		delete(p.open, at)
		_ = w.ctl.Disconnect(ctx) // the connection may be lost
	}
	return err
}
