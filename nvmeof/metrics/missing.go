package metrics

import (
	"fmt"

	"github.com/prometheus/client_golang/prometheus"
)

// missing is a collector in place of one whose configuration lacks something. Its value names that. Gather fails
// with an error that says so.
type missing string

// Describe implements prometheus.Collector.
func (missing) Describe(chan<- *prometheus.Desc) {}

// Collect implements prometheus.Collector.
func (m missing) Collect(out chan<- prometheus.Metric) {
	err := fmt.Errorf("metrics: %s is missing", string(m))
	out <- prometheus.NewInvalidMetric(prometheus.NewInvalidDesc(err), err)
}
