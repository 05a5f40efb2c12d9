package discovery

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/nvmeof-go/nvmeof/nvmeof"
)

// A Dialer connects to discovery controllers. Several goroutines may call its methods at the same time.
type Dialer interface {
	// Dial connects. If stay is set, the connection is kept alive, and notify is called, from any goroutine, when the
	// controller reports a change of its log.
	Dial(ctx context.Context, at Endpoint, stay bool, notify func()) (Session, error)
}

// A Session is a connected discovery controller. It is used by one goroutine.
type Session interface {
	Log(ctx context.Context) (Log, error)
	Name() nvmeof.NQN      // the subsystem's unique NQN, or empty
	Notices() bool         // whether the controller reports changes
	Done() <-chan struct{} // closed when the connection is lost
	Err() error            // why it was lost
	Close() error
}

// Run follows the controllers seeds. Without Config.Persistent, it returns when all logs have been read, with the
// joined errors of the controllers that could not be read. With it, it returns nil when ctx ends.
func Run(ctx context.Context, config Config, dialer Dialer, seeds ...Endpoint) error {
	if dialer == nil {
		return errors.New("discovery: the Dialer is missing")
	}
	e := newEngine(config)
	ctx, cancel := context.WithCancel(ctx)
	r := &runner{
		ctx: ctx, engine: e, dialer: dialer, links: map[nodeID]*link{},
		results: make(chan func(now time.Time)),
	}
	defer r.wait.Wait()
	defer cancel()
	for _, s := range seeds {
		e.start(time.Now(), s)
	}
	return r.loop()
}

// A runner executes the orders of its engine. The goroutine of Run owns all but ctx, results and wait.
type runner struct {
	ctx     context.Context
	engine  *engine
	dialer  Dialer
	links   map[nodeID]*link
	results chan func(now time.Time) // of the links
	wait    sync.WaitGroup
	errs    []error
}

func (r *runner) loop() error {
	for {
		r.carryOut()
		if !r.engine.config.Persistent && r.engine.done() {
			return errors.Join(r.errs...)
		}
		var timer <-chan time.Time
		if at := r.engine.next(); !at.IsZero() {
			timer = time.After(time.Until(at))
		}
		select {
		case result := <-r.results:
			result(time.Now())
		case now := <-timer:
			r.engine.advance(now)
		case <-r.ctx.Done():
			if r.engine.config.Persistent {
				return nil
			}
			return context.Cause(r.ctx)
		}
	}
}

func (r *runner) carryOut() {
	orders, events := r.engine.take()
	for _, o := range orders {
		switch o.kind {
		case orderConnect:
			if old := r.links[o.id]; old != nil {
				old.end()
			}
			r.links[o.id] = r.connect(o.id, o.at)
		case orderRead:
			r.links[o.id].read <- struct{}{} // never blocks: one order at a time
		case orderDrop:
			r.links[o.id].end()
			delete(r.links, o.id)
		}
	}
	for _, ev := range events {
		if ev.Kind == Unreachable && ev.Again == 0 {
			r.errs = append(r.errs, ev.placed())
		}
		r.engine.config.Event(ev)
	}
}

// A link is the goroutine of one node's connection.
type link struct {
	runner *runner
	id     nodeID
	at     Endpoint
	ctx    context.Context
	end    context.CancelFunc
	read   chan struct{}
}

func (r *runner) connect(id nodeID, at Endpoint) *link {
	l := &link{runner: r, id: id, at: at, read: make(chan struct{}, 1)}
	l.ctx, l.end = context.WithCancel(r.ctx)
	r.wait.Go(l.run) // ends with the connection, or when l.end is called
	return l
}

// report passes on a result, unless the link has been ended.
func (l *link) report(result func(now time.Time)) {
	select {
	case l.runner.results <- result:
	case <-l.ctx.Done():
	}
}

func (l *link) run() {
	err := l.serve()
	if err == nil {
		return
	}
	l.report(func(now time.Time) { l.runner.engine.failed(now, l.id, err) })
}

// serve connects and reads the log, again whenever that is ordered. It returns why the connection was lost, or nil.
func (l *link) serve() error {
	config := &l.runner.engine.config // constant
	engine := l.runner.engine
	s, log, err := l.begin(config, func() { l.report(func(time.Time) { engine.changed(l.id) }) })
	if err != nil {
		return err
	}
	defer s.Close()
	for {
		got := reading{log, s.Name(), s.Notices()}
		l.report(func(now time.Time) { engine.logged(now, l.id, got) })
		if !config.Persistent {
			return nil
		}
		select {
		case <-l.read:
		case <-s.Done():
			return s.Err()
		case <-l.ctx.Done():
			return nil
		}
		if log, err = l.again(config, s); err != nil {
			return err
		}
	}
}

// begin connects and reads the log.
func (l *link) begin(config *Config, notify func()) (s Session, log Log, err error) {
	ctx, cancel := context.WithTimeout(l.ctx, config.Timeout)
	defer cancel()
	if s, err = l.runner.dialer.Dial(ctx, l.at, config.Persistent, notify); err != nil {
		return nil, Log{}, err
	}
	if log, err = s.Log(ctx); err != nil {
		_ = s.Close() // its error says less than err
	}
	return s, log, err
}

// again reads the log of a connected controller.
func (l *link) again(config *Config, s Session) (Log, error) {
	ctx, cancel := context.WithTimeout(l.ctx, config.Timeout)
	defer cancel()
	return s.Log(ctx)
}
