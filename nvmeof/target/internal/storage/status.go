package storage

import (
	"errors"
	"sync/atomic"

	"go.uber.org/zap"

	"github.com/nvmeof-go/nvmeof/backend"
	"github.com/nvmeof-go/nvmeof/capsule"
	"github.com/nvmeof-go/nvmeof/nvmeof/events"
)

// StatusOf returns the status for a store's error. Media errors have no Do Not Retry: another path, or a later
// retry, may succeed.
func StatusOf(op backend.Op, err error) capsule.Status {
	switch {
	case errors.Is(err, backend.ErrOutOfRange):
		return capsule.StatusLBAOutOfRange | capsule.StatusDNR
	case errors.Is(err, backend.ErrReadOnly):
		return capsule.StatusNamespaceWriteProtected | capsule.StatusDNR
	case errors.Is(err, backend.ErrNoSpace):
		return capsule.StatusCapacityExceeded | capsule.StatusDNR
	case errors.Is(err, backend.ErrClosed):
		return capsule.StatusInvalidNamespace | capsule.StatusDNR
	case errors.Is(err, backend.ErrFenced):
		return capsule.StatusInternalPathError
	case errors.Is(err, backend.ErrMiscompare):
		return capsule.StatusCompareFailure
	case op == backend.OpRead:
		return capsule.StatusUnrecoveredReadError
	}
	return capsule.StatusWriteFault
}

// Failure counts a store's error, and logs once that the store has failed permanently.
func (l *Lane) Failure(op backend.Op, err error) {
	switch StatusOf(op, err) {
	case capsule.StatusUnrecoveredReadError, capsule.StatusWriteFault:
		bump(&l.mediaErrors, 1)
	}
	if (errors.Is(err, backend.ErrFailed) || op == backend.OpFlush) && !l.failed.Swap(true) {
		l.Volume.recordEvent(events.Error, "failed and refuses writes: "+err.Error())
		l.Volume.volumes.log.Error("namespace failed", zap.String("export", l.Volume.Name), zap.Error(err))
	}
}

// bump adds to a counter that only the caller's shard writes, by a load and a store.
func bump(c *atomic.Uint64, n uint64) { c.Store(c.Load() + n) }
