package metrics

import (
	"github.com/prometheus/client_golang/prometheus"
	dto "github.com/prometheus/client_model/go"

	"github.com/nvmeof-go/nvmeof/internal/recent"
)

// A gatherer gathers at most once a second, so that clients that send requests all the time do not keep the shards
// busy.
type gatherer struct {
	prometheus.Gatherer
	recent.Reading[[]*dto.MetricFamily]
}

// Gather implements prometheus.Gatherer. Its result is shared and must not be modified.
func (g *gatherer) Gather() ([]*dto.MetricFamily, error) { return g.Get(g.Gatherer.Gather) }
