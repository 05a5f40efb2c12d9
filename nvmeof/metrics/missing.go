package metrics

import (
	"fmt"

	"github.com/prometheus/client_golang/prometheus"
)

// missing is a collector that was not given what it needs, which it names: Gather fails with that.
type missing string

// Describe implements prometheus.Collector.
func (missing) Describe(chan<- *prometheus.Desc) {}

// Collect implements prometheus.Collector.
func (m missing) Collect(out chan<- prometheus.Metric) {
	err := fmt.Errorf("metrics: %s is missing", string(m))
	out <- prometheus.NewInvalidMetric(prometheus.NewInvalidDesc(err), err)
}
