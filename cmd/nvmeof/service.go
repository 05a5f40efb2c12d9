package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/netip"
	"sync"
	"time"

	"go.uber.org/zap"

	"github.com/nvmeof-go/nvmeof/backend"
	"github.com/nvmeof-go/nvmeof/nvmeof"
	"github.com/nvmeof-go/nvmeof/nvmeof/target"
	"github.com/nvmeof-go/nvmeof/rdmatransport"
	"github.com/nvmeof-go/nvmeof/rdmatransport/verbs"
)

// A service is what the target command does: it serves one subsystem at every place
// asked for, each with a device of its own, so that a place that loses its device loses
// nothing else, and gets it back when it returns.
type service struct {
	flags   *targetFlags
	polling nvmeof.Polling
	exports []exported
	log     *zap.Logger
	out     io.Writer
	device  func(*place) (rdmatransport.Device, error) // opens that of a place
	target  *target.Target                             // while it runs

	places  sync.WaitGroup // those in progress, and who waits for them
	settled sync.WaitGroup // those that have not been tried yet

	mu        sync.Mutex
	devices   int // in use
	ports     map[netip.AddrPort]target.PortID
	announced map[netip.AddrPort]bool
}

// An exported store is open for as long as the service.
type exported struct {
	store backend.Store
	name  string
	arg   string                  // of --export
	resv  target.ReservationStore // or nil
}

// A place is addresses of one device.
type place struct {
	transport string // not auto
	why       string
	addrs     []netip.AddrPort
}

// run serves until ctx ends, or until a place fails for good.
func (s *service) run(ctx context.Context, listen []netip.AddrPort) (err error) {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	s.ports, s.announced = map[netip.AddrPort]target.PortID{}, map[netip.AddrPort]bool{}
	s.target, err = target.New(target.Config{Log: s.log, Shards: s.flags.shards, Polling: s.polling, SharedReceives: s.flags.shared})
	if err != nil {
		return err
	}
	defer func() {
		s.log.Info("authentications", zap.Any("counters", s.target.AuthCounts()))
		err = errors.Join(err, s.target.Close())
	}()
	sub, err := s.export()
	if err != nil {
		return err
	}
	defer rereadKeys(sub, s.flags.hosts, s.log)()
	return s.serveEach(ctx, cancel, listen)
}

// serveEach serves at all places until ctx ends, or until one of them fails for good.
func (s *service) serveEach(ctx context.Context, cancel context.CancelCauseFunc, listen []netip.AddrPort) error {
	var first error
	var once sync.Once
	for _, at := range listen {
		if !at.Addr().IsUnspecified() {
			s.port(at) // in the order in which they were named
		}
		s.settled.Add(1)
		s.places.Go(func() { // ends with ctx at the latest
			var tried sync.Once
			settled := func() { tried.Do(s.settled.Done) }
			defer settled()
			if err := s.serveAt(ctx, at, settled); err != nil {
				once.Do(func() { first = err })
				cancel(err)
			}
		})
	}
	s.places.Go(func() { // ends with the first round of attempts
		if s.settled.Wait(); ctx.Err() == nil {
			tellManager("READY=1")
		}
	})
	<-ctx.Done()
	s.log.Info("stopping")
	tellManager("STOPPING=1")
	s.places.Wait()
	return first
}

// serveAt serves at one --listen. Settled is called when it serves or is known to
// have to wait.
func (s *service) serveAt(ctx context.Context, at netip.AddrPort, settled func()) error {
	if at.Addr().IsUnspecified() {
		return s.serveAll(ctx, at, settled)
	}
	p := place{transport: s.flags.transport, why: "asked for with --transport", addrs: []netip.AddrPort{at}}
	if p.transport == transportAuto { // once: a device that is away for a while stays the choice
		p.transport, p.why = chooseTransport(at.Addr())
	}
	s.log.Info("transport", zap.String("name", p.transport), zap.String("why", p.why))
	return s.keep(ctx, p, settled)
}

// keep serves at a place until ctx ends or there is an error that waiting does not
// mend. A place that has served before, or waited for its device, is never given up.
func (s *service) keep(ctx context.Context, p place, settled func()) error {
	wait := backoff{log: s.log.With(zap.Stringer("address", p.addrs[0]))}
	patient := false
	for {
		err := s.serve(ctx, p, func() {
			patient = true
			wait.reset()
			settled()
		})
		patient = patient || deviceMayCome(err)
		if ctx.Err() != nil || !patient {
			return err
		}
		settled()
		if !wait.after(ctx, err) {
			return nil
		}
	}
}

// deviceMayCome reports whether an error is one of a device that is not there now.
func deviceMayCome(err error) bool {
	var none *verbs.NoDeviceError
	return errors.Is(err, rdmatransport.ErrDeviceLost) || errors.As(err, &none)
}

// serve serves at a place with a new device until ctx ends or the device is lost. It
// calls up when hosts can connect.
func (s *service) serve(ctx context.Context, p place, up func()) (err error) {
	dev, err := s.device(&p)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, dev.Close()) }()
	defer s.useProcessors()()
	d, err := s.target.AddDevice(dev)
	if err != nil {
		return err
	}
	why := "it cannot listen"
	defer func() { // peers are told
		logCounters(dev, s.log)
		err = errors.Join(err, d.Remove(why))
	}()
	var l *target.Listener
	for _, at := range p.addrs {
		if l, err = d.Listen(target.ListenerConfig{ID: s.port(at), Addr: at}); err != nil {
			return err
		}
		s.announce(l.Addr())
	}
	up()
	select {
	case <-ctx.Done():
		why = "target is shutting down"
		return nil
	case <-l.Done(): // all of a device end together
		why = fmt.Sprint(l.Err())
		return l.Err()
	}
}

func (s *service) openDevice(p *place) (rdmatransport.Device, error) {
	return openProvider(p.transport, p.addrs[0].Addr(), providerConfig{
		Shards: s.flags.shards, AckTimeout: s.flags.ackTimeout, ReceiveBuffer: s.flags.rcvbuf, Congestion: s.flags.congestion, Warn: func(w string) { s.log.Warn(w) },
	})
}

// export creates the subsystem.
func (s *service) export() (*target.Subsystem, error) {
	sub, err := s.target.AddSubsystem(target.SubsystemConfig{NQN: s.flags.nqn})
	if err != nil {
		return nil, usage("--nqn: %v", err)
	}
	if err := allow(sub, s.flags.hosts, s.log); err != nil {
		return nil, fmt.Errorf("--allow-host: %w", err)
	}
	sub.AllowAnyHost(s.flags.allowAnyHost)
	for _, e := range s.exports {
		if _, err := sub.AddNamespace(target.NamespaceConfig{Store: e.store, Name: e.name, Reservations: e.resv}); err != nil {
			return nil, fmt.Errorf("--export %s: %w", e.arg, err)
		}
	}
	return sub, nil
}

// port is the identifier of the listener of an address, the same whenever it comes
// back.
func (s *service) port(at netip.AddrPort) target.PortID {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.ports[at] == 0 {
		s.ports[at] = target.PortID(len(s.ports) + 1)
	}
	return s.ports[at]
}

// announce tells once how a Linux host gets to an address.
func (s *service) announce(at netip.AddrPort) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.announced[at] {
		return
	}
	s.announced[at] = true
	fmt.Fprintf(s.out, "serving %d namespace(s) of %s on %v\n", len(s.exports), s.flags.nqn, at)
	fmt.Fprintf(s.out, "on a Linux host: %s\n", connectLine(at, s.flags.nqn))
}

// useProcessors counts one more device, until done is called.
func (s *service) useProcessors() (done func()) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.devices++
	needProcessors(s.devices*s.flags.shards, s.polling)
	return func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		s.devices--
	}
}

// A backoff is how long a place is left alone after it failed: longer each time, and
// short again once it has served for a while.
type backoff struct {
	log  *zap.Logger
	next time.Duration
	up   time.Time // when it served last; zero if it has not since
	told string    // the error logged last
	when time.Time // and when that was
}

const (
	firstPause = 100 * time.Millisecond
	longPause  = 5 * time.Second
	// sameNews is how often the same reason is logged.
	sameNews = time.Minute
)

func (b *backoff) reset() { b.up = time.Now() }

// after waits, and reports false if ctx ended.
func (b *backoff) after(ctx context.Context, err error) bool {
	if !b.up.IsZero() && time.Since(b.up) > longPause {
		b.next, b.told = 0, ""
	}
	b.up = time.Time{}
	b.next = min(max(2*b.next, firstPause), longPause)
	if text := fmt.Sprint(err); text != b.told || time.Since(b.when) > sameNews {
		b.told, b.when = text, time.Now()
		b.log.Warn("not serving here: trying again until it works", zap.Error(err), zap.Duration("next", b.next))
	}
	select {
	case <-ctx.Done():
		return false
	case <-time.After(b.next):
		return true
	}
}
