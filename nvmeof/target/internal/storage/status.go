package storage

import (
	"errors"
	"sync/atomic"

	"go.uber.org/zap"

	"github.com/nvmeof-go/nvmeof/backend"
	"github.com/nvmeof-go/nvmeof/capsule"
)

// StatusOf is how a store's error reaches the host. Media errors carry no Do Not
// Retry: another path, or a later time, may do better.
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
	case errors.Is(err, backend.ErrMiscompare):
		return capsule.StatusCompareFailure
	case op == backend.OpRead:
		return capsule.StatusUnrecoveredReadError
	}
	return capsule.StatusWriteFault
}

// Failure counts a store's error, and says once that the store gave up.
func (l *Lane) Failure(op backend.Op, err error) {
	switch StatusOf(op, err) {
	case capsule.StatusUnrecoveredReadError, capsule.StatusWriteFault:
		bump(&l.mediaErrors, 1)
	}
	if (errors.Is(err, backend.ErrFailed) || op == backend.OpFlush) && !l.failed.Swap(true) {
		l.Volume.volumes.log.Error("namespace failed", zap.String("export", l.Volume.Name), zap.Error(err))
	}
}

// bump adds to a counter that only the caller's shard writes: a load and a
// store, so that readers elsewhere see whole values.
func bump(c *atomic.Uint64, n uint64) { c.Store(c.Load() + n) }
