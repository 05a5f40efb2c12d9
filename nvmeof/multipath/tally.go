package multipath

import (
	"context"
	"errors"
	"io"
	"maps"
	"sync"
	"sync/atomic"

	"github.com/nvmeof-go/nvmeof/backend"
	"github.com/nvmeof-go/nvmeof/capsule"
	"github.com/nvmeof-go/nvmeof/internal/latency"
	"github.com/nvmeof-go/nvmeof/nvmeof/host"
)

// kindNames are the kinds of requests in metrics, by their backend.Op.
var kindNames = [...]string{
	backend.OpRead: "read", backend.OpWrite: "write", backend.OpFlush: "flush", backend.OpWriteZeroes: "zeroes", backend.OpDeallocate: "dsm",
}

// A tally counts requests: those of one queue, so that queues do not share a cache line, or all blocking ones. Its
// counters are atomic because its owner may sleep for any time, so that a reader cannot ask the owner.
type tally struct {
	inFlight      atomic.Int64
	read, written atomic.Uint64 // bytes of requests that succeeded
	kinds         [len(kindNames)]atomic.Pointer[latency.Shared]

	mu     sync.Mutex // guards failed
	failed map[Failure]uint64
}

// A Failure is the kind of a request's failure.
type Failure struct {
	// Reason is "status" for a status of the controller, which is in Status; otherwise "no_path", "unknown"
	// ([UnknownError]), "lost" ([ErrWritesLost]), "removed", "canceled", "invalid", "closed" or "other".
	Reason string
	Status capsule.Status // without Do Not Retry
}

// ended counts a completed request, which took took nanoseconds.
func (t *tally) ended(op backend.Op, length int, took int64, err error) {
	if int(op) >= len(t.kinds) {
		return
	}
	h := t.kinds[op].Load()
	if h == nil {
		t.kinds[op].CompareAndSwap(nil, new(latency.Shared))
		h = t.kinds[op].Load()
	}
	h.Observe(took)
	switch {
	case err != nil && err != io.EOF:
		t.fail(failureOf(err))
	case op == backend.OpRead:
		t.read.Add(uint64(length))
	case op == backend.OpWrite:
		t.written.Add(uint64(length))
	}
}

func (t *tally) fail(f Failure) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.failed == nil {
		t.failed = make(map[Failure]uint64)
	}
	if _, known := t.failed[f]; !known && len(t.failed) >= maxFailures {
		f = Failure{Reason: "other"}
	}
	t.failed[f]++
}

// maxFailures is how many different failures are counted, so that a controller cannot use up memory with invented
// statuses.
const maxFailures = 64

func failureOf(err error) Failure {
	var status *host.StatusError
	var noPath *NoPathError
	var unknown *UnknownError
	switch {
	case errors.As(err, &noPath): // first, because it wraps the reasons
		return Failure{Reason: "no_path"}
	case errors.As(err, &unknown):
		return Failure{Reason: "unknown"}
	case errors.As(err, &status):
		return Failure{"status", status.Status.Code()}
	case errors.Is(err, ErrWritesLost):
		return Failure{Reason: "lost"}
	case errors.Is(err, host.ErrRemoved):
		return Failure{Reason: "removed"}
	case errors.Is(err, ErrClosed), errors.Is(err, host.ErrClosed), errors.Is(err, backend.ErrClosed):
		return Failure{Reason: "closed"}
	case errors.Is(err, context.Canceled), errors.Is(err, context.DeadlineExceeded):
		return Failure{Reason: "canceled"}
	case local(err):
		return Failure{Reason: "invalid"}
	}
	return Failure{Reason: "other"}
}

// addTo adds the counters to those of a namespace.
func (t *tally) addTo(m *NamespaceMeasures) {
	m.InFlight += t.inFlight.Load()
	m.Read += t.read.Load()
	m.Written += t.written.Load()
	for i := range t.kinds {
		if h := t.kinds[i].Load(); h != nil {
			h.AddTo(m.kind(i))
		}
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	m.addFailed(t.failed)
}

func (m *NamespaceMeasures) addFailed(failed map[Failure]uint64) {
	if m.failed == nil {
		m.failed = maps.Clone(failed)
		return
	}
	for f, n := range failed {
		m.failed[f] += n
	}
}

func (m *NamespaceMeasures) kind(i int) *Latencies {
	if m.kinds[i] == nil {
		m.kinds[i] = new(Latencies)
	}
	return m.kinds[i]
}
