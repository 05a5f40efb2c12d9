package multipath

import (
	"context"
	"errors"
	"fmt"
	"math"
	"sync/atomic"
	"time"

	"github.com/nvmeof-go/nvmeof/capsule"
	"github.com/nvmeof-go/nvmeof/nvmeof"
	"github.com/nvmeof-go/nvmeof/nvmeof/host"
	"github.com/nvmeof-go/nvmeof/nvmeof/multipath/internal/decide"
)

// A session is one controller of a path, from Connect to its loss.
type session struct {
	path  *Path
	ctrl  *host.Controller
	fence time.Duration // how long its commands may take effect after the last one of this host
	crdt  decide.RetryDelays

	// settled is when its commands have ended, on the subsystem's clock. It is never until the session is disconnected,
	// since this host keeps the controller alive so long. It is 0 if ReplayDelay is set.
	settled atomic.Int64

	buffers map[*Buffers]*host.Buffers // guarded by Subsystem.sharing
	looking commandLock                // held while an open namespace is identified again

	// Guarded by Subsystem.mu.
	spaces map[*Namespace]*attachment
	ana    *decide.ANALog // nil: no ANA, so all namespaces are optimized
	anaErr error          // why the last attempt to read it failed
	scans  int            // how often all open namespaces were identified again
}

// A commandLock is a mutex that is held during commands, which may last until a controller is found to be lost. Waiting
// for it can be canceled. It blocks on a channel, so that the clock of testing/synctest advances meanwhile.
type commandLock chan struct{}

// lock returns an error if ctx ends, or the controller is lost, before the lock is free.
func (l commandLock) lock(ctx context.Context, c *host.Controller) error {
	select {
	case l <- struct{}{}:
		return nil
	default:
	}
	select {
	case l <- struct{}{}:
		return nil
	case <-c.Done():
		return c.Err()
	case <-ctx.Done():
		return ctx.Err()
	}
}

func (l commandLock) unlock() { <-l }

// An attachment is a namespace on a session.
type attachment struct {
	session *session
	ns      *host.Namespace
	cache   *cache    // see Namespace.cacheOf
	err     error     // why it cannot be used; then ns is nil
	since   time.Time // when err began; zero if it can be used
	removed bool      // it existed before the controller reported it gone or replaced
	unseen  bool      // Identify failed, and is repeated
	lost    time.Time // when its ANA state became persistent loss; zero: it is not. Guarded by Subsystem.mu
	// blocked is until when no request is sent, on the subsystem's clock: 0, a time, or untilANA.
	blocked atomic.Int64

	inFlight atomic.Int64
	holds    atomic.Int32 // if not 0, no request begins, because the namespace is being identified
	doubt    atomic.Bool  // a request failed as if the namespace were another one
}

// untilANA means until the ANA log has been read again.
const untilANA = math.MaxInt64

// newSession returns the session of a controller that was just connected, after checking the controller.
func newSession(ctx context.Context, p *Path, c *host.Controller) (*session, error) {
	id := c.Identify()
	s := &session{
		path: p, ctrl: c, crdt: decide.RetryDelays{id.CRDT1, id.CRDT2, id.CRDT3},
		buffers: map[*Buffers]*host.Buffers{}, spaces: map[*Namespace]*attachment{}, looking: make(commandLock, 1),
	}
	switch d := p.cfg.ReplayDelay; {
	case d > 0:
		s.fence = d
	case d == 0:
		s.settled.Store(never)
		s.fence = decide.Fence(p.keepAlive(), id.KAS, id.CTRATT, id.CQT)
	}
	if err := s.judge(); err != nil {
		return nil, err
	}
	if id.CMIC&capsule.CMICANA != 0 {
		var err error
		if s.ana, err = s.readANA(ctx); err != nil {
			return nil, err
		}
	}
	return s, nil
}

// settle sets when the commands of a disconnected session have ended, unless ReplayDelay is set. That is soon if the
// controller has reported that its shutdown is complete.
func (s *session) settle() {
	if s.path.cfg.ReplayDelay != 0 {
		return
	}
	after := s.fence
	if s.ctrl.ShutDown() {
		after = decide.Settle(s.ctrl.Identify().CQT)
	}
	s.settled.Store(s.path.sub.now() + int64(after))
}

// atTheLatest returns how long commands may take effect after the loss of the controller.
func (s *session) atTheLatest() time.Duration {
	if s.path.cfg.ReplayDelay != 0 {
		return s.fence
	}
	return disconnectTime + s.fence
}

// judge refuses a controller that does not belong to the subsystem.
func (s *session) judge() error {
	id := s.ctrl.Identify()
	want := s.path.sub.nqn
	if got := id.SubNQN.String(); got != "" && got != string(want) {
		return &MismatchError{Addr: s.path.addr(), What: fmt.Sprintf("its controller reports that it belongs to %s, not to %s", nvmeof.Printable(got), want)}
	}
	if id.CNTRLTYPE == capsule.ControllerTypeDiscovery {
		return &MismatchError{Addr: s.path.addr(), What: "it is a discovery controller"}
	}
	if id.CMIC&capsule.CMICManyControllers == 0 && s.path.sub.pathCount() > 1 {
		return &MismatchError{Addr: s.path.addr(), What: "the subsystem reports that it has only one controller (CMIC)"}
	}
	return nil
}

// anaTries is how often a log is read if it changes meanwhile.
const anaTries = 5

const (
	maxANALog   = 1 << 20
	firstANALog = 4096 // length of the first read: most logs are shorter
)

// readANA reads the ANA log, which re-arms its event.
func (s *session) readANA(ctx context.Context) (*decide.ANALog, error) {
	id := s.ctrl.Identify()
	namespaces := id.MNAN
	if namespaces == 0 {
		namespaces = id.NN
	}
	size := int((min(decide.ANALogSize(id.NANAGRPID, namespaces), maxANALog) + 3) &^ 3)
	b := make([]byte, size)
	n := min(size, firstANALog)
	for range anaTries {
		before, err := s.anaChanges(ctx, n)
		if err == nil {
			err = s.logANA(ctx, b[:n])
		}
		if err != nil {
			return nil, fmt.Errorf("reading the ANA log: %w", err)
		}
		log, err := decide.DecodeANALog(b[:n], id.ANAGRPMAX)
		switch {
		case errors.Is(err, decide.ErrShortLog) && n < size:
			n = size
		case err != nil:
			return nil, err
		case n <= s.ctrl.MaxTransfer() || before == log.Changes:
			return log, nil
		}
	}
	return nil, errors.New("reading the ANA log: it changes continuously")
}

// anaChanges returns the log's change count, or 0 if one command can read n bytes.
func (s *session) anaChanges(ctx context.Context, n int) (uint64, error) {
	if n <= s.ctrl.MaxTransfer() {
		return 0, nil
	}
	var b [capsule.ANALogHeaderSize]byte
	if err := s.logANA(ctx, b[:]); err != nil {
		return 0, err
	}
	h, err := capsule.DecodeANALogHeader(b[:])
	return h.CHGCNT, err
}

// logANA reads the start of the log, with one command if possible: some targets do not support offsets.
func (s *session) logANA(ctx context.Context, b []byte) error {
	if len(b) > s.ctrl.MaxTransfer() {
		return s.ctrl.Logs().Read(ctx, capsule.NSIDBroadcast, capsule.GetLogPage{LID: capsule.LogANA}, b)
	}
	cmd := capsule.Command{Opcode: capsule.Opcode(capsule.AdminGetLogPage), NSID: capsule.NSIDBroadcast}
	capsule.GetLogPage{LID: capsule.LogANA, Length: uint64(len(b))}.Put(&cmd)
	_, err := s.ctrl.Admin(ctx, cmd, b)
	return err
}

// state returns the ANA state of an attachment. Subsystem.mu must be held.
func (s *session) state(a *attachment) capsule.ANAState {
	if s.ana == nil {
		return capsule.ANAOptimized
	}
	return s.ana.State(a.ns.ID(), a.group())
}

// group returns the ANA group that the namespace was in when it was last identified.
func (a *attachment) group() capsule.ANAGroup { return capsule.ANAGroup(a.ns.Identify().ANAGRPID) }

// transition returns ANATT: how long a group may be in the state Change, and how long the logs of two controllers may
// contradict each other.
func (s *session) transition() time.Duration {
	return time.Duration(s.ctrl.Identify().ANATT) * time.Second
}

// identified is the result of identifying a namespace on a session.
type identified struct {
	ns    *host.Namespace
	err   error
	scans int // of the session, before it was asked
}

func (s *session) identify(ctx context.Context, id capsule.NSID) identified {
	s.path.sub.mu.Lock()
	scans := s.scans
	s.path.sub.mu.Unlock()
	ns, err := s.ctrl.Namespace(ctx, id)
	return identified{ns, err, scans}
}

// judged returns the attachment for the result of identifying a namespace. was is the previous attachment, or nil.
// Subsystem.mu must be held.
func (s *session) judged(n *Namespace, f identified, was *attachment) *attachment {
	a := &attachment{session: s}
	err := f.err
	var unusable *host.UnusableError
	switch {
	case err == nil:
		if err = n.same(f.ns, s.path.addr()); err == nil {
			a.ns, a.cache = f.ns, n.cacheOf(s.path, f.ns)
		}
	case errors.As(err, &unusable) && n.isOpen():
		err = unusable.Removed()
	}
	a.fail(err, n.Removed() || was != nil && was.removed, was)
	return a
}

// fail sets why the attachment cannot be used, if err is not nil, and since when: if was could not be used either,
// since then. A namespace that does not exist may still appear, unless it existed before.
func (a *attachment) fail(err error, wasThere bool, was *attachment) {
	switch {
	case err == nil:
	case was != nil && was.err != nil:
		a.since = was.since
	default:
		a.since = time.Now()
	}
	var mismatch *MismatchError
	var removed *host.RemovedError
	replaced := errors.As(err, &removed) || errors.As(err, &mismatch) && mismatch.Replaced
	a.err = err
	a.removed = replaced || wasThere && errors.Is(err, host.ErrRemoved)
	a.unseen = err != nil && mismatch == nil && !errors.Is(err, host.ErrRemoved)
}

// begin counts n requests that are about to be sent. It returns false if none may be sent now.
func (a *attachment) begin(n int) bool {
	a.inFlight.Add(int64(n))
	if a.holds.Load() > 0 {
		a.inFlight.Add(int64(-n))
		return false
	}
	a.session.path.inFlight.Add(int64(n))
	return true
}

// ended counts requests that have completed.
func (a *attachment) ended(n int) {
	a.dropped(n)
	a.session.path.completed.Add(uint64(n))
}

func (a *attachment) dropped(n int) {
	a.inFlight.Add(int64(-n))
	a.session.path.inFlight.Add(int64(-n))
}

// The pauses of hold between two checks: the first and the longest.
const (
	firstHoldStep = 50 * time.Microsecond
	lastHoldStep  = 5 * time.Millisecond
)

// hold keeps requests from beginning until release is called, and waits up to drainTime for those that have begun:
// older ones reached the target long ago, or have not been sent. A target that fails requests because another namespace
// has the identifier executes them again once it has answered Identify. By then, no request for the old namespace may
// be in flight.
func (a *attachment) hold(ctx context.Context) (release func()) {
	a.holds.Add(1)
	step := firstHoldStep
	for end := time.Now().Add(drainTime); a.inFlight.Load() > 0 && time.Now().Before(end); step = min(2*step, lastHoldStep) {
		if ctx.Err() != nil || a.session.ctrl.Err() != nil {
			break
		}
		time.Sleep(step)
	}
	return func() { a.holds.Add(-1) }
}

// block keeps requests from the attachment until a time, unless it is blocked for longer.
func (a *attachment) block(until int64) {
	for {
		old := a.blocked.Load()
		if old >= until || a.blocked.CompareAndSwap(old, until) {
			return
		}
	}
}
