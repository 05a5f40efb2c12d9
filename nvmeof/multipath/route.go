package multipath

import (
	"context"
	"errors"
	"io"
	"math"
	"time"

	"github.com/nvmeof-go/nvmeof/backend"
	"github.com/nvmeof-go/nvmeof/nvmeof/host"
	"github.com/nvmeof-go/nvmeof/nvmeof/multipath/internal/decide"
	"github.com/nvmeof-go/nvmeof/rdmatransport"
)

// A table has the routes of a namespace: one for each path. It is immutable; a change makes a new table.
type table struct {
	routes []route
	closed bool // the subsystem or the namespace is closed
}

// A route is a path as seen by a namespace.
type route struct {
	path       *Path
	attachment *attachment // nil: no request can be sent
	class      decide.Class
	state      State
	since      time.Time
	err        error // why it is not usable

	// hope says whether requests wait for the route to become usable, and hopeUntil until when, on the subsystem's
	// clock; 0: without limit.
	hope      bool
	hopeUntil int64
}

// never is a time that never comes.
const never = math.MaxInt64

// candidates fills cs with the present state of the routes, for a caller on a NUMA node.
func (t *table) candidates(cs []decide.Candidate, p Policy, now int64, here rdmatransport.NUMANode) []decide.Candidate {
	cs = cs[:0]
	for i := range t.routes {
		r := &t.routes[i]
		c := decide.Candidate{Class: r.class}
		if r.class != decide.Unusable && (r.attachment.blocked.Load() > now || r.attachment.holds.Load() > 0) {
			c.Class = decide.Unusable
		}
		if here != 0 {
			c.Distance = r.path.sub.nodes.distance(here, r.path.cfg.Host.Node())
		}
		if p >= QueueDepth {
			c.InFlight, c.Latency = r.path.inFlight.Load(), r.path.latency.Load()
		}
		cs = append(cs, c)
	}
	return cs
}

// here returns the NUMA node of the caller, or 0 if it makes no difference.
func (t *table) here(n *Namespace) rdmatransport.NUMANode {
	if n.sub.nodes == nil || len(t.routes) < 2 || n.sub.Policy() != NUMA {
		return 0
	}
	return currentNode()
}

// hopeless reports whether no route can become usable for a request.
func (t *table) hopeless(now int64) bool {
	for i := range t.routes {
		if r := &t.routes[i]; r.hope && (r.hopeUntil == 0 || now < r.hopeUntil) {
			return false
		}
	}
	return true
}

// next returns when, without a new table, a waiting request should check the routes again.
func (t *table) next(now int64) int64 {
	at := int64(never)
	for i := range t.routes {
		r := &t.routes[i]
		if r.hope && r.hopeUntil > now {
			at = min(at, r.hopeUntil)
		}
		if r.class != decide.Unusable {
			if until := r.attachment.blocked.Load(); until > now {
				at = min(at, until)
			}
		}
	}
	return at
}

// failure returns the error of a request that has no path.
func (t *table) failure(n *Namespace, last error) error {
	if t.closed {
		return ErrClosed
	}
	e := &NoPathError{NQN: n.sub.nqn, Namespace: n.id, Last: last}
	for i := range t.routes {
		r := &t.routes[i]
		e.Paths = append(e.Paths, PathFailure{r.path.addr(), r.state, r.since, r.err})
	}
	return e
}

// A Safety says whether a command whose outcome is unknown may be executed again.
type Safety uint8

const (
	// Harmless commands change nothing: they are repeated at once.
	Harmless Safety = iota
	// Repeatable commands have the same effect when executed twice with nothing in between: they are repeated when the
	// first can have no effect any more.
	Repeatable
	// Once is for all others: they fail with an [*UnknownError].
	Once
)

// A trial is the state of a request that failed and may be retried.
type trial struct {
	notBefore int64    // earliest retry, unless lost.settled is set
	lost      *session // the session on which it was lost; may be nil
	deadline  int64    // end of retries; 0: not failed with a status yet, or no limit
	few       int      // number of failures that are not due to the path
	last      error
}

// weigh evaluates the failure of a request on a route. It returns nil if the request is to be retried, as described by
// t, or else the request's error.
func (a *attachment) weigh(t *trial, err error, safety Safety, now int64) error {
	p := a.session.path
	p.errors.Add(1)
	var v decide.Verdict
	var status *host.StatusError
	var unsent *host.UnsentError
	var lost *session
	wait := time.Duration(0)
	switch {
	case errors.As(err, &status):
		if v = decide.Judge(status.Status, &a.session.crdt); errors.Is(err, host.ErrRemoved) {
			// Only from this path, which identifies it again before it sends anything there.
			v = decide.Verdict{Retry: true, Few: true, ANA: true}
		}
		if v.Look = v.Look || errors.Is(err, host.ErrRemoved); v.Look {
			a.doubt.Store(true)
			p.readANASoon()
		}
		if !v.Retry {
			return err
		}
		wait = v.Delay
		if d := p.cfg.Timers.requestTimeout(); t.deadline == 0 && d > 0 {
			t.deadline = now + int64(d)
		}
		if left := time.Duration(t.deadline - now); t.deadline != 0 {
			wait = max(0, min(wait, left)) // it must not be retried after the deadline
		}
	case local(err):
		return err
	case errors.As(err, &unsent), errors.Is(err, host.ErrRemoved), errors.Is(err, host.ErrUnseen): // found by this host
		v.Avoid = true
	case errors.Is(err, host.ErrShortData):
		v, wait = decide.Verdict{Few: true}, decide.AvoidFor
	case safety == Once:
		return &UnknownError{p.addr(), time.Now().Add(a.session.atTheLatest()), err}
	default:
		if v.Avoid = true; safety == Repeatable {
			wait, lost = a.session.fence, a.session
		}
	}
	if v.Few {
		if t.few++; t.few > decide.MaxRetries {
			return err
		}
	}
	if v.ANA {
		a.block(untilANA)
		p.readANASoon()
	}
	if v.Avoid {
		a.block(now + int64(max(decide.AvoidFor, v.Delay)))
	}
	t.last, t.notBefore, t.lost = err, now+int64(wait), lost
	return nil
}

// owns reports whether an error that a caller's function returned is the function's own: the path is live, and no
// request to the target failed or was lost. A lost controller has its error before its requests are returned.
func (a *attachment) owns(err error) bool {
	var status *host.StatusError
	var unsent *host.UnsentError
	if a.session.ctrl.Err() != nil || errors.As(err, &status) || errors.As(err, &unsent) {
		return false
	}
	for _, e := range []error{host.ErrRemoved, host.ErrUnseen, host.ErrShortData} {
		if errors.Is(err, e) {
			return false
		}
	}
	return true
}

// due returns when a request may be retried.
func (t *trial) due() int64 {
	if t.lost != nil {
		if at := t.lost.settled.Load(); at != 0 {
			return at
		}
	}
	return t.notBefore
}

// local reports whether an error is not due to a path: it is a mistake of the caller found by this host, or the caller
// gave up.
func local(err error) bool {
	for _, e := range []error{
		host.ErrUnaligned, host.ErrOutOfRange, host.ErrUnsupported, backend.ErrInvalid, backend.ErrOutOfRange,
		backend.ErrReadOnly, backend.ErrUnsupported, io.EOF, context.Canceled, context.DeadlineExceeded,
	} {
		if errors.Is(err, e) {
			return true
		}
	}
	return false
}

// over reports whether a request that is due has been retried for long enough.
func (t *trial) over(now int64) bool { return t.deadline != 0 && now >= t.deadline }

// measured adds the duration of a request to the latency.
func (p *Path) measured(d int64) { p.latency.Store(decide.Smooth(p.latency.Load(), d)) }
