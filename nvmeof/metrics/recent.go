package metrics

import (
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	dto "github.com/prometheus/client_model/go"
)

// A recent gathers no more often than each second, so that clients who ask without end do not
// keep shards busy.
type recent struct {
	prometheus.Gatherer

	mu   sync.Mutex
	at   time.Time // zero: never
	last []*dto.MetricFamily
	err  error
}

const gatherInterval = time.Second

// Gather implements prometheus.Gatherer. What it returns is not changed by anybody.
func (r *recent) Gather() ([]*dto.MetricFamily, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if now := time.Now(); r.at.IsZero() || now.Sub(r.at) >= gatherInterval {
		r.last, r.err = r.Gatherer.Gather()
		r.at = now
	}
	return r.last, r.err
}
