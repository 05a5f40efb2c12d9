package multipath

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math"
	"net/netip"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/nvmeof-go/nvmeof/backend"
	"github.com/nvmeof-go/nvmeof/capsule"
	"github.com/nvmeof-go/nvmeof/nvmeof/host"
	"github.com/nvmeof-go/nvmeof/nvmeof/multipath/internal/decide"
)

// A Namespace is a namespace over all paths of its subsystem. Its methods may be called from any goroutine. They have
// the same meaning and errors as those of [host.Namespace], but return no error of a path while another one can be
// used.
type Namespace struct {
	sub  *Subsystem
	id   capsule.NSID
	info backend.Info // all but the size is constant
	ids  host.Identifiers

	size     atomic.Int64 // bytes; changed under Subsystem.mu
	readOnly atomic.Bool  // changed under Subsystem.mu
	removed  atomic.Bool  // all live paths report so; changed under Subsystem.mu

	table   atomic.Pointer[table]
	changed atomic.Pointer[chan struct{}] // closed when table has been replaced
	last    atomic.Int64                  // last and count: cursor of blocking requests
	count   atomic.Uint32

	mu     sync.Mutex // guards the fields below
	queues []*Queue
	past   NamespaceMeasures // of closed queues
	closed bool

	calls  tally // of blocking requests
	writes writes
}

var _ backend.Store = (*Namespace)(nil)

// Namespace opens a namespace. All live paths that have it must lead to the same namespace, with the same unique
// identifiers, size and block size; otherwise it returns a [*MismatchError] that says which path differs. A path is not
// used for the namespace as long as it does not have it, or has not answered within a second after another path. Nor is
// a path that becomes live later and leads to another namespace. If [Config].MaxNamespaces are open, the error is
// [ErrManyNamespaces].
func (s *Subsystem) Namespace(ctx context.Context, id capsule.NSID) (*Namespace, error) {
	live, err := s.reachable()
	if err != nil {
		return nil, err
	}
	answers, err := identifyAll(ctx, live, id)
	if err != nil {
		return nil, err
	}
	n := &Namespace{sub: s, id: id}
	n.last.Store(-1)
	n.renew()
	late, err := n.open(live, answers)
	if err != nil {
		return nil, err
	}
	for _, ses := range late {
		ses.path.readANASoon()
	}
	return n, nil
}

// identifyAll asks all sessions in parallel to identify a namespace. The result lacks sessions that have not answered
// in time after another one. While a session does not answer and the others do not have the namespace, these are asked
// again, since it may just have been created.
func identifyAll(ctx context.Context, live []*session, id capsule.NSID) (map[*session]identified, error) {
	type answer struct {
		of *session
		identified
	}
	all, found := make(chan answer, len(live)), map[*session]identified{}
	ask, cancel := context.WithCancel(ctx)
	defer cancel()
	again := map[*session]bool{} // sessions that are being asked again
	identify := func(ses *session) {
		beside(ask, all, func() answer { return answer{ses, ses.identify(ask, id)} })
	}
	for _, ses := range live {
		identify(ses)
	}
	var others <-chan time.Time // nil until one has identified the namespace
	repeat := time.NewTicker(othersTime)
	defer repeat.Stop()
	for len(found) < len(live) {
		select {
		case a := <-all:
			delete(again, a.of)
			if found[a.of] = a.identified; a.err == nil && others == nil {
				others = time.After(othersTime)
			}
		case <-others:
			return found, nil
		case <-repeat.C:
			for ses, f := range found {
				if f.err != nil && !again[ses] && ses.ctrl.Err() == nil {
					again[ses] = true
					identify(ses)
				}
			}
		case <-ctx.Done():
			return nil, unanswered(live, found, id, ctx.Err())
		}
	}
	return found, nil
}

// unanswered returns the error for a namespace that no path has, while some have not answered.
func unanswered(live []*session, found map[*session]identified, id capsule.NSID, why error) error {
	errs := []error{fmt.Errorf("namespace %d: %w", id, why)}
	for _, ses := range live {
		if f, answered := found[ses]; !answered {
			errs = append(errs, fmt.Errorf("path %v: no answer", ses.path.Addr()))
		} else if f.err != nil {
			errs = append(errs, f.err)
		}
	}
	return errors.Join(errs...)
}

// open adds the namespace to those of the subsystem, with the properties that the first path reports. It returns the
// live sessions that have not identified it yet, or have to do so again because their namespaces changed after they
// were asked.
func (n *Namespace) open(asked []*session, answers map[*session]identified) (late []*session, err error) {
	s := n.sub
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return nil, ErrClosed
	}
	if err := s.full(); err != nil {
		return nil, fmt.Errorf("namespace %d: %w", n.id, err)
	}
	var errs []error
	found := map[*session]*attachment{}
	for _, ses := range asked {
		f, answered := answers[ses]
		switch {
		case !answered:
			continue
		case f.err != nil:
			errs = append(errs, f.err)
			continue // it was lost, or does not have the namespace yet
		case len(found) == 0:
			n.info, n.ids = f.ns.Info(), f.ns.Identifiers()
			n.size.Store(n.info.Size)
			n.readOnly.Store(n.info.ReadOnly)
		}
		a := ses.judged(n, f, nil)
		if a.err != nil {
			return nil, a.err
		}
		found[ses] = a
	}
	if len(found) == 0 {
		return nil, errors.Join(errs...)
	}
	for _, p := range s.paths {
		ses := p.session
		if ses == nil {
			continue
		}
		f, answered := answers[ses]
		a := found[ses]
		if !answered || f.scans != ses.scans {
			late, a = append(late, ses), nil
			f.err = fmt.Errorf("namespace %d: %w", n.id, errNoAnswer)
		}
		if a == nil {
			a = ses.judged(n, f, nil)
		}
		ses.spaces[n] = a
	}
	s.namespaces[n] = struct{}{}
	s.publish()
	return late, nil
}

// full returns an error if no more namespaces may be open. mu must be held.
func (s *Subsystem) full() error {
	if len(s.namespaces) < s.maxNamespaces {
		return nil
	}
	open := 0
	for n := range s.namespaces {
		if !n.Removed() {
			open++
		}
	}
	if open < s.maxNamespaces {
		return nil
	}
	return fmt.Errorf("%w: %d", ErrManyNamespaces, open)
}

// errNoAnswer is why a path is not used for a namespace that was opened without waiting for it.
var errNoAnswer = errors.New("the controller has not yet completed Identify, or not since its namespaces changed")

// same returns an error if ns is not the same namespace as n. Subsystem.mu must be held.
func (n *Namespace) same(ns *host.Namespace, at netip.AddrPort) error {
	what, replaced := "", false
	switch ids, none := ns.Identifiers(), (host.Identifiers{CSI: capsule.CSINVM}); {
	case ids != n.ids:
		replaced = n.isOpen()
		if what = fmt.Sprintf("is a different one: its identifier is now %v, and was %v", ids, n.ids); n.elsewhere(at) {
			what = fmt.Sprintf("is a different one: its identifier is %v, that on the other paths %v", ids, n.ids)
		}
	case ids == none && len(n.sub.paths) > 1:
		what = "has no unique identifier, so it cannot be compared with that of the other paths"
	case ns.BlockSize() != n.info.BlockSize, ns.Size() != n.Size() && n.elsewhere(at):
		replaced = ns.BlockSize() != n.info.BlockSize && n.isOpen()
		what = fmt.Sprintf("has %d bytes in blocks of %d, but on the other paths %d in blocks of %d",
			ns.Size(), ns.BlockSize(), n.Size(), n.info.BlockSize)
	case ns.Identify().NMIC&capsule.NMICShared == 0 && len(n.sub.paths) > 1:
		what = "may not be shared by controllers (NMIC)"
	}
	if what == "" {
		return nil
	}
	return &MismatchError{at, fmt.Sprintf("namespace %d %s", n.id, what), replaced}
}

func (n *Namespace) renew() {
	ch := make(chan struct{})
	if old := n.changed.Swap(&ch); old != nil {
		close(*old)
	}
}

// publish replaces the table, and wakes waiting requests. Subsystem.mu must be held.
func (n *Namespace) publish(t *table) {
	n.table.Store(t)
	n.wake()
}

// wake makes waiting requests check the table again.
func (n *Namespace) wake() {
	n.renew()
	n.mu.Lock()
	defer n.mu.Unlock()
	for _, q := range n.queues {
		q.stir()
	}
}

// ID returns the namespace's NSID.
func (n *Namespace) ID() capsule.NSID { return n.id }

// Size returns the namespace's size in bytes.
func (n *Namespace) Size() int64 { return n.size.Load() }

// BlockSize returns the size of a logical block in bytes.
func (n *Namespace) BlockSize() int { return n.info.BlockSize }

// Identifiers returns the namespace's globally unique identifiers.
func (n *Namespace) Identifiers() host.Identifiers { return n.ids }

// Info implements [backend.Store].
func (n *Namespace) Info() backend.Info {
	info := n.info
	info.Size, info.ReadOnly = n.size.Load(), n.readOnly.Load()
	return info
}

// Close implements [backend.Store]. It fails while a queue is open. The subsystem stays connected.
func (n *Namespace) Close() error {
	n.mu.Lock()
	if len(n.queues) > 0 {
		defer n.mu.Unlock()
		return fmt.Errorf("namespace %d has %d open queues", n.id, len(n.queues))
	}
	n.closed = true
	n.mu.Unlock()
	s := n.sub
	s.mu.Lock()
	defer s.mu.Unlock()
	if _, open := s.namespaces[n]; open {
		s.retire(n)
	}
	delete(s.namespaces, n)
	for _, p := range s.paths {
		if p.session != nil {
			delete(p.session.spaces, n)
		}
	}
	n.publish(&table{closed: true})
	return nil
}

// A call is a blocking request.
type call struct {
	kind   backend.Op
	p      []byte
	off    int64
	length int64
	free   bool
	fn     func(*host.Namespace) error // used instead of the above
	n      int
	flush  flushing // if it is a flush
}

func (c *call) issue(ctx context.Context, ns *host.Namespace) (err error) {
	if c.fn != nil {
		return c.fn(ns)
	}
	switch c.kind {
	case backend.OpRead:
		c.n, err = ns.ReadAtContext(ctx, c.p, c.off)
	case backend.OpWrite:
		c.n, err = ns.WriteAtContext(ctx, c.p, c.off)
	case backend.OpFlush:
		err = ns.FlushContext(ctx)
	case backend.OpWriteZeroes:
		err = ns.WriteZeroesContext(ctx, c.off, c.length, c.free)
	case backend.OpDeallocate:
		err = ns.Deallocate(c.off, c.length)
	}
	return err
}

// safetyOf returns whether an operation may be repeated.
func safetyOf(op backend.Op) Safety {
	switch op {
	case backend.OpRead, backend.OpFlush:
		return Harmless
	case backend.OpWrite, backend.OpWriteZeroes, backend.OpDeallocate:
		return Repeatable
	}
	return Once
}

// ReadAt implements [io.ReaderAt]; see [host.Namespace.ReadAt].
func (n *Namespace) ReadAt(p []byte, off int64) (int, error) {
	return n.ReadAtContext(context.Background(), p, off)
}

// ReadAtContext is ReadAt with a context. If ctx ends first, it does not wait for a path; commands are aborted, and
// once nothing can access p any more, ReadAtContext returns the error of ctx.
func (n *Namespace) ReadAtContext(ctx context.Context, p []byte, off int64) (int, error) {
	size := n.Size()
	if off >= size {
		return 0, io.EOF
	}
	c := call{kind: backend.OpRead, p: p[:min(int64(len(p)), size-max(off, 0))], off: off}
	err := n.do(ctx, &c, Harmless)
	if err == nil && len(c.p) < len(p) {
		err = io.EOF
	}
	return c.n, err
}

// WriteAt implements [io.WriterAt]; see [host.Namespace.WriteAt].
func (n *Namespace) WriteAt(p []byte, off int64) (int, error) {
	return n.WriteAtContext(context.Background(), p, off)
}

// WriteAtContext is WriteAt with a context, as ReadAtContext. After it has returned, nothing more is written: on a lost
// path, it returns when the target has ended its commands.
func (n *Namespace) WriteAtContext(ctx context.Context, p []byte, off int64) (int, error) {
	if !backend.InRange(off, int64(len(p)), n.Size()) {
		return 0, host.ErrOutOfRange
	}
	c := call{kind: backend.OpWrite, p: p, off: off}
	err := n.do(ctx, &c, Repeatable)
	return c.n, err
}

// Flush makes all completed writes durable. [ErrWritesLost] means that some may have been lost before the flush.
func (n *Namespace) Flush() error { return n.FlushContext(context.Background()) }

// FlushContext is Flush with a context, as ReadAtContext.
func (n *Namespace) FlushContext(ctx context.Context) error {
	return n.do(ctx, &call{kind: backend.OpFlush, flush: n.writes.beginFlush()}, Harmless)
}

// WriteZeroes makes a range read as zeroes. If free is set, the storage may be deallocated.
func (n *Namespace) WriteZeroes(off, length int64, free bool) error {
	return n.WriteZeroesContext(context.Background(), off, length, free)
}

// WriteZeroesContext is WriteZeroes with a context, as WriteAtContext.
func (n *Namespace) WriteZeroesContext(ctx context.Context, off, length int64, free bool) error {
	if !backend.InRange(off, length, n.Size()) {
		return host.ErrOutOfRange
	}
	return n.do(ctx, &call{kind: backend.OpWriteZeroes, off: off, length: length, free: free}, Repeatable)
}

// Deallocate deallocates a range whose content is no longer needed.
func (n *Namespace) Deallocate(off, length int64) error {
	if !backend.InRange(off, length, n.Size()) {
		return host.ErrOutOfRange
	}
	return n.do(context.Background(), &call{kind: backend.OpDeallocate, off: off, length: length}, Repeatable)
}

// Allocated implements [backend.Store]. It reads the current NUSE from the controller.
func (n *Namespace) Allocated() (size int64, err error) {
	err = n.Use(context.Background(), Harmless, func(ns *host.Namespace) (err error) {
		size, err = ns.Allocated()
		return err
	})
	return size, err
}

// Use calls fn with the namespace of one path, and again with that of another path if fn fails because of the path. Any
// other error is returned as it is. safety says whether what fn does may be repeated; if it may not, and its outcome is
// unknown, the error is an [*UnknownError]. fn may block; it is not called again once ctx has ended. What is
// Repeatable, and may have been lost with its path, ends when no part of it can take effect any more, as in
// WriteAtContext.
func (n *Namespace) Use(ctx context.Context, safety Safety, fn func(*host.Namespace) error) error {
	return n.do(ctx, &call{fn: fn}, safety)
}

// do executes a call, and counts it unless its kind is unknown.
func (n *Namespace) do(ctx context.Context, c *call, safety Safety) error {
	if c.fn != nil {
		return n.try(ctx, c, safety)
	}
	began := n.sub.now()
	n.calls.inFlight.Add(1)
	err := n.try(ctx, c, safety)
	n.calls.inFlight.Add(-1)
	if n.sub.counts {
		n.calls.ended(c.kind, c.n, n.sub.now()-began, err)
	}
	return err
}

// try tries one path after the other until a call has a result.
func (n *Namespace) try(ctx context.Context, c *call, safety Safety) error {
	var t trial
	for {
		changed, table, now := *n.changed.Load(), n.table.Load(), n.sub.now()
		if table.closed {
			return ErrClosed
		}
		if now >= t.due() {
			if err := ctx.Err(); err != nil {
				return err
			}
			if t.over(now) {
				return table.failure(n, t.last)
			}
			if r := n.choose(table, now); r != nil {
				if !r.attachment.begin(1) {
					continue // it is being identified: choose skips it now
				}
				err := r.attachment.carry(ctx, c, now)
				if err == nil || err == io.EOF {
					if err == nil && (isVolatile(c.kind, false) || c.fn != nil && safety != Harmless) {
						n.writes.acknowledged(r.attachment.cache, 1)
					}
					if c.kind == backend.OpFlush {
						err = n.writes.endFlush(c.flush, err)
					}
					return err
				}
				if c.fn != nil && r.attachment.owns(err) {
					r.attachment.session.path.errors.Add(1)
					return err
				}
				if err = r.attachment.weigh(&t, err, safety, n.sub.now()); err != nil {
					return err
				}
				continue
			}
			if table.hopeless(now) {
				return table.failure(n, t.last)
			}
		}
		done := ctx.Done()
		if t.lost != nil && now < t.due() {
			done = nil // it may still be executed: the caller must not return before
		}
		if n.await(done, &t, table, changed, now) {
			return ctx.Err()
		}
	}
}

// carry executes a call on one path, which has counted it with begin.
func (a *attachment) carry(ctx context.Context, c *call, now int64) error {
	err := c.issue(ctx, a.ns)
	a.ended(1)
	if p := a.session.path; err == nil {
		p.measured(p.sub.now() - now)
	}
	return err
}

// await waits until a call should be tried again. It returns true if done is closed first.
func (n *Namespace) await(done <-chan struct{}, t *trial, table *table, changed <-chan struct{}, now int64) bool {
	at := t.due()
	if now >= at {
		if at = table.next(now); t.deadline != 0 {
			at = min(at, t.deadline)
		}
	}
	timer := time.NewTimer(time.Duration(min(at-now, math.MaxInt64/2)))
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-changed:
	case <-done:
		return true
	}
	return false
}

// choose returns the route for a blocking call, or nil.
func (n *Namespace) choose(t *table, now int64) *route {
	var room [MaxPaths]decide.Candidate
	cs := t.candidates(room[:], n.sub.Policy(), now, t.here(n))
	at := decide.Cursor{Last: int(n.last.Load()), Count: n.count.Load()}
	i := decide.Choose(n.sub.Policy(), cs, &at)
	if i < 0 {
		return nil
	}
	n.last.Store(int64(at.Last))
	n.count.Store(at.Count)
	return &t.routes[i]
}

// removeQueue removes a queue, and keeps its counters.
func (n *Namespace) removeQueue(q *Queue) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.queues = slices.DeleteFunc(n.queues, func(o *Queue) bool { return o == q })
	q.tally.addTo(&n.past)
}
