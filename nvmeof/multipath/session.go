package multipath

import (
	"context"
	"errors"
	"fmt"
	"math"
	"sync/atomic"
	"time"

	"github.com/nvmeof-go/nvmeof/capsule"
	"github.com/nvmeof-go/nvmeof/nvmeof/host"
	"github.com/nvmeof-go/nvmeof/nvmeof/multipath/internal/decide"
)

// A session is one controller of a path, from Connect to its loss.
type session struct {
	path  *Path
	ctrl  *host.Controller
	fence time.Duration // how long its commands may outlive it
	crdt  decide.RetryDelays

	// settled is when its commands are over, on the subsystem's clock, where the
	// controller has said so itself; 0: it has not.
	settled atomic.Int64

	buffers map[*Buffers]*host.Buffers // under Subsystem.opening

	// Under Subsystem.mu.
	spaces map[*Namespace]*attachment
	ana    *decide.ANALog // nil: the controller has no ANA, and everything is optimized
	anaErr error          // why it could not be read the last time
}

// An attachment is a namespace as a session has it.
type attachment struct {
	session *session
	ns      *host.Namespace
	err     error // why it cannot be used; then ns is nil
	removed bool  // it could be, before the controller said that it is there no more
	// blocked is until when nothing is sent there, on the subsystem's clock: 0, or a
	// time, or untilANA.
	blocked atomic.Int64
}

// untilANA is until the ANA log was read again.
const untilANA = math.MaxInt64

// newSession looks at a controller that was just connected.
func newSession(ctx context.Context, p *Path, c *host.Controller) (*session, error) {
	id := c.Identify()
	s := &session{
		path: p, ctrl: c, crdt: decide.RetryDelays{id.CRDT1, id.CRDT2, id.CRDT3},
		buffers: map[*Buffers]*host.Buffers{}, spaces: map[*Namespace]*attachment{},
	}
	switch d := p.cfg.ReplayDelay; {
	case d > 0:
		s.fence = d
	case d == 0:
		s.fence = decide.Fence(p.keepAlive(), id.CTRATT, id.CQT)
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

// settle notes when the commands of a session that was disconnected are over, if its
// controller said that they are, and the user leaves the time to us.
func (s *session) settle() bool {
	if s.path.cfg.ReplayDelay != 0 || !s.ctrl.ShutDown() {
		return false
	}
	s.settled.Store(s.path.sub.now() + int64(decide.Settle(s.ctrl.Identify().CQT)))
	return true
}

// judge refuses a controller that is not of the subsystem.
func (s *session) judge() error {
	id := s.ctrl.Identify()
	want := s.path.sub.nqn
	if got := id.SubNQN.String(); got != "" && got != string(want) {
		return &MismatchError{s.path.addr(), fmt.Sprintf("its controller says that it belongs to %s, not to %s", got, want)}
	}
	if id.CNTRLTYPE == capsule.ControllerTypeDiscovery {
		return &MismatchError{s.path.addr(), "it is a discovery controller"}
	}
	if id.CMIC&capsule.CMICManyControllers == 0 && s.path.sub.pathCount() > 1 {
		return &MismatchError{s.path.addr(), "the subsystem says that it has no more than one controller (CMIC)"}
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
	return nil, errors.New("reading the ANA log: it changes all the time")
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
		return s.ctrl.LogPage(ctx, capsule.NSIDBroadcast, capsule.LogANA, 0, b)
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

// transition is ANATT: how long a group may be in the state Change.
func (s *session) transition() time.Duration {
	return time.Duration(s.ctrl.Identify().ANATT) * time.Second
}

// attach opens a namespace on the session. Only the loss of the controller is an
// error; what else is wrong is the attachment's.
func (s *session) attach(ctx context.Context, n *Namespace) (*attachment, error) {
	a := &attachment{session: s}
	ns, err := s.ctrl.Namespace(ctx, n.id)
	switch {
	case err == nil:
		if err = n.same(ns, s.path.addr()); err == nil {
			a.ns = ns
		}
	case s.ctrl.Err() != nil || ctx.Err() != nil:
		return nil, err
	}
	a.err, a.removed = err, errors.Is(err, host.ErrRemoved) && n.Removed()
	return a, nil
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
