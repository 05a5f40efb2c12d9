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
	fence time.Duration // how long its commands may outlive the last one of this host
	crdt  decide.RetryDelays

	// settled is when its commands are over, on the subsystem's clock; never until it is
	// disconnected, since so long this host keeps the controller alive; 0 where the user
	// has said how long they may outlive it.
	settled atomic.Int64

	buffers map[*Buffers]*host.Buffers // under Subsystem.sharing
	looking commandLock                // held while it is asked what an open namespace is now

	// Under Subsystem.mu.
	spaces map[*Namespace]*attachment
	ana    *decide.ANALog // nil: the controller has no ANA, and everything is optimized
	anaErr error          // why it could not be read the last time
	scans  int            // how often all open namespaces were looked at
}

// A commandLock is a mutex that is held during commands, which may take as long as it
// takes until a controller is found to be lost: whoever waits for it can give up. Waiting
// for it blocks on a channel, so that the clock of testing/synctest goes on.
type commandLock chan struct{}

// lock returns an error if ctx ends, or the controller does, before the lock is free.
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

// An attachment is a namespace as a session has it.
type attachment struct {
	session *session
	ns      *host.Namespace
	cache   *cache    // see Namespace.cacheOf
	err     error     // why it cannot be used; then ns is nil
	since   time.Time // when that began; zero: it can be used
	removed bool      // it could be, before the controller said that it is there no more, or another
	unseen  bool      // Identify failed, and is repeated
	lost    time.Time // when its ANA state was found to be persistent loss; zero: it is another. Under Subsystem.mu
	// blocked is until when nothing is sent there, on the subsystem's clock: 0, or a
	// time, or untilANA.
	blocked atomic.Int64

	inFlight atomic.Int64
	holds    atomic.Int32 // no request begins while it is not 0: what is there is looked at
	doubt    atomic.Bool  // a request was refused as if the namespace were another one
}

// untilANA is until the ANA log was read again.
const untilANA = math.MaxInt64

// newSession looks at a controller that was just connected.
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

// settle notes when the commands of a session that was disconnected are over, if the user
// leaves the time to us: soon, where its controller has said that they are.
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

// atTheLatest is how long its commands may outlive the loss of the controller.
func (s *session) atTheLatest() time.Duration {
	if s.path.cfg.ReplayDelay != 0 {
		return s.fence
	}
	return disconnectTime + s.fence
}

// judge refuses a controller that is not of the subsystem.
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

// anaTries is how often a log is read that changes while it is read.
const anaTries = 5

const (
	maxANALog   = 1 << 20
	firstANALog = 4096 // what is read at first: most logs are shorter
)

// readANA reads the ANA log, which lets the controller send its next event.
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

// anaChanges is the log's count of changes, where n bytes of it cannot be read by
// one command.
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

// logANA reads the start of the log, by one command if that can be: there are
// targets that know no offsets.
func (s *session) logANA(ctx context.Context, b []byte) error {
	if len(b) > s.ctrl.MaxTransfer() {
		return s.ctrl.Logs().Read(ctx, capsule.NSIDBroadcast, capsule.GetLogPage{LID: capsule.LogANA}, b)
	}
	cmd := capsule.Command{Opcode: capsule.Opcode(capsule.AdminGetLogPage), NSID: capsule.NSIDBroadcast}
	capsule.GetLogPage{LID: capsule.LogANA, Length: uint64(len(b))}.Put(&cmd)
	_, err := s.ctrl.Admin(ctx, cmd, b)
	return err
}

// state is how the session reaches a namespace. Under Subsystem.mu.
func (s *session) state(a *attachment) capsule.ANAState {
	if s.ana == nil {
		return capsule.ANAOptimized
	}
	return s.ana.State(a.ns.ID(), a.group())
}

// group is the ANA group that the namespace was in when it was last looked at.
func (a *attachment) group() capsule.ANAGroup { return capsule.ANAGroup(a.ns.Identify().ANAGRPID) }

// transition is ANATT: how long a group may be in the state Change, and how long the logs of
// two controllers may be in contradiction.
func (s *session) transition() time.Duration {
	return time.Duration(s.ctrl.Identify().ANATT) * time.Second
}

// identified is what a controller reports of a namespace.
type identified struct {
	ns    *host.Namespace
	err   error
	scans int // of the session, when it was asked
}

func (s *session) identify(ctx context.Context, id capsule.NSID) identified {
	s.path.sub.mu.Lock()
	scans := s.scans
	s.path.sub.mu.Unlock()
	ns, err := s.ctrl.Namespace(ctx, id)
	return identified{ns, err, scans}
}

// judged is what the session makes of the answer to Identify of a namespace, of which was
// is what it knew before, if anything. Under Subsystem.mu.
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

// fail notes why the attachment cannot be used, if it cannot, and since when, which is as of the one before it, was. A
// namespace that is not there may come yet, unless it was there before.
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

// begin counts requests that are about to begin, unless none may.
func (a *attachment) begin(n int) bool {
	a.inFlight.Add(int64(n))
	if a.holds.Load() > 0 {
		a.inFlight.Add(int64(-n))
		return false
	}
	a.session.path.inFlight.Add(int64(n))
	return true
}

// ended counts those that came back, and dropped those that never will.
func (a *attachment) ended(n int) {
	a.dropped(n)
	a.session.path.completed.Add(uint64(n))
}

func (a *attachment) dropped(n int) {
	a.inFlight.Add(int64(-n))
	a.session.path.inFlight.Add(int64(-n))
}

// How long hold waits until it looks again, at first and at most.
const (
	firstHoldStep = 50 * time.Microsecond
	lastHoldStep  = 5 * time.Millisecond
)

// hold keeps requests from beginning until release is called, and waits for those that
// have begun: what is older than drainTime has reached the target long ago, or has not been sent. A target
// that refuses requests since another namespace has the identifier carries them out
// again when Identify has returned what the namespace is now. None that was
// meant for the old one may be on its way then.
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

// block keeps requests away from the attachment for a time, unless it is blocked
// longer.
func (a *attachment) block(until int64) {
	for {
		old := a.blocked.Load()
		if old >= until || a.blocked.CompareAndSwap(old, until) {
			return
		}
	}
}
