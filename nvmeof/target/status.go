package target

import (
	"errors"

	"go.uber.org/zap"

	"github.com/nvmeof-go/nvmeof/backend"
	"github.com/nvmeof-go/nvmeof/capsule"
	"github.com/nvmeof-go/nvmeof/rdmatransport"
)

// statusOf is how a store's error reaches the host. Media errors carry no Do Not
// Retry: another path, or a later time, may do better.
func statusOf(op backend.Op, err error) capsule.Status {
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

// failure counts a store's error, and says once that the store gave up.
func (l *lane) failure(op backend.Op, err error) {
	switch statusOf(op, err) {
	case capsule.StatusUnrecoveredReadError, capsule.StatusWriteFault:
		bump(&l.mediaErrors, 1)
	}
	if (errors.Is(err, backend.ErrFailed) || op == backend.OpFlush) && !l.failed.Swap(true) {
		l.volume.target.log.Error("namespace failed", zap.String("export", l.volume.name), zap.Error(err))
	}
}

// isDisconnect reports an orderly end by either side.
func isDisconnect(err error) bool { return errors.Is(err, rdmatransport.ErrDisconnected) }
