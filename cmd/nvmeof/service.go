package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/netip"
	"os"
	"os/signal"
	"sync"
	"time"

	"go.uber.org/zap"
	"golang.org/x/sys/unix"

	"github.com/nvmeof-go/nvmeof/backend"
	"github.com/nvmeof-go/nvmeof/capsule"
	"github.com/nvmeof-go/nvmeof/nvmeof/shard"
	"github.com/nvmeof-go/nvmeof/nvmeof/target"
	"github.com/nvmeof-go/nvmeof/rdmatransport"
	"github.com/nvmeof-go/nvmeof/rdmatransport/verbs"
)

// A service is what the target command does: it serves the same stores at every place
// asked for, each with a device and a target of its own, so that a place that loses
// its device loses nothing else, and gets it back when it returns.
type service struct {
	flags   *targetFlags
	polling shard.Polling
	exports []exported
	log     *zap.Logger
	out     io.Writer
	device  func(*place) (rdmatransport.Device, error) // opens that of a place

	places  sync.WaitGroup // those in progress, and who waits for them
	settled sync.WaitGroup // those that have not been tried yet

	mu        sync.Mutex
	parts     map[int]bool // in use
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
	part      int // of the subsystem's identifiers; 0: all
}

// Places serve the same subsystem, in targets that do not know of each other. Each has
// a part of the identifiers of controllers and of listeners.
const (
	partIDs  = 1024
	maxParts = int(capsule.ControllerIDMax) / partIDs
)

// identifiers are the first and the last identifier of the place's part.
func (p *place) identifiers() (first, last uint16) {
	if p.part == 0 {
		return uint16(capsule.ControllerIDMin), uint16(capsule.ControllerIDMax)
	}
	first = uint16(capsule.ControllerIDMin) + uint16((p.part-1)*partIDs)
	return first, first + partIDs - 1
}

// run serves until ctx ends, or until a place fails for good.
func (s *service) run(ctx context.Context, listen []netip.AddrPort) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	s.parts, s.announced = map[int]bool{}, map[netip.AddrPort]bool{}
	hangup := make(chan os.Signal, 1)
	signal.Notify(hangup, unix.SIGHUP) // which is harmless too while no place is there to read keys again
	defer signal.Stop(hangup)
	var first error
	var once sync.Once
	for _, at := range listen {
		s.settled.Add(1)
		s.places.Go(func() {
			var tried sync.Once
			settled := func() { tried.Do(s.settled.Done) }
			defer settled()
			if err := s.serveAt(ctx, at, len(listen) == 1, settled); err != nil {
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
func (s *service) serveAt(ctx context.Context, at netip.AddrPort, alone bool, settled func()) error {
	if at.Addr().IsUnspecified() {
		return s.serveAll(ctx, at, settled)
	}
	p := place{transport: s.flags.transport, why: "asked for with --transport", addrs: []netip.AddrPort{at}}
	if p.transport == transportAuto { // once: a device that is away for a while stays the choice
		p.transport, p.why = chooseTransport(at.Addr())
	}
	s.log.Info("transport", zap.String("name", p.transport), zap.String("why", p.why))
	if !alone {
		var err error
		if p.part, err = s.takePart(); err != nil {
			return err
		}
		defer s.givePart(p.part)
	}
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
	t, err := target.New(target.Config{Device: dev, Log: s.log, Shards: s.flags.shards, Polling: s.polling, SharedReceives: s.flags.shared, OneOfMany: p.part != 0})
	if err != nil {
		return err
	}
	defer func() { // peers are told
		logCounters(dev, s.log)
		s.log.Info("authentications", zap.Any("counters", t.AuthCounts()))
		err = errors.Join(err, t.Close())
	}()
	sub, err := s.export(t, &p)
	if err != nil {
		return err
	}
	defer rereadKeys(sub, s.flags.hosts, s.log)()
	var l *target.Listener
	for i, at := range p.addrs {
		first, _ := p.identifiers()
		if l, err = t.ListenAs(target.PortID(first)+target.PortID(i), at); err != nil {
			return err
		}
		s.announce(l.Addr())
	}
	up()
	select {
	case <-ctx.Done():
		return nil
	case <-l.Done(): // all of a device end together
		return l.Err()
	}
}

func (s *service) openDevice(p *place) (rdmatransport.Device, error) {
	return openTransport(p.transport, p.addrs[0].Addr(), s.flags.shards, s.flags.rcvbuf, s.log)
}

// export creates the subsystem.
func (s *service) export(t *target.Target, p *place) (*target.Subsystem, error) {
	first, last := p.identifiers()
	sub, err := t.AddSubsystem(target.SubsystemConfig{
		NQN: s.flags.nqn, MinController: capsule.ControllerID(first), MaxController: capsule.ControllerID(last),
	})
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

// takePart is a part of the subsystem's identifiers that no other place has.
func (s *service) takePart() (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for n := 1; n <= maxParts; n++ {
		if !s.parts[n] {
			s.parts[n] = true
			needProcessors(len(s.parts)*s.flags.shards, s.polling)
			return n, nil
		}
	}
	return 0, fmt.Errorf("more than %d places to serve at: name fewer addresses with --listen", maxParts)
}

func (s *service) givePart(n int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.parts, n)
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
