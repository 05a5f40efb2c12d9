package metrics

import (
	"net/http"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"github.com/prometheus/client_golang/prometheus/promhttp"
	"go.uber.org/zap"

	"github.com/nvmeof-go/nvmeof/internal/loglimit"
)

// Path is the URL path at which [Handler] serves the metrics.
const Path = "/metrics"

// scrapes is how many requests are served at a time; others fail. A client that sends requests all the time can
// thus not keep the shards busy.
const scrapes = 2

// Handler serves the metrics of the collectors and of the process at [Path]. It reads the collectors at most once a
// second. Errors are logged; log may be nil.
func Handler(log *zap.Logger, all ...prometheus.Collector) http.Handler {
	r := prometheus.NewRegistry()
	r.MustRegister(collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}))
	for _, c := range all {
		if c == nil {
			c = missing("a collector of Handler")
		}
		r.MustRegister(c)
	}
	o := promhttp.HandlerOpts{MaxRequestsInFlight: scrapes, Timeout: 30 * time.Second, EnableOpenMetrics: true}
	if log != nil {
		o.ErrorLog = loglimit.HTTP(log, "metrics")
	}
	mux := http.NewServeMux()
	mux.Handle("GET "+Path, promhttp.HandlerFor(&gatherer{Gatherer: r}, o))
	mux.HandleFunc("GET /{$}", func(w http.ResponseWriter, _ *http.Request) {
		_, _ = w.Write([]byte("<html><head><title>nvmeof</title></head><body><a href=\"" + Path + "\">metrics</a></body></html>\n"))
	})
	return mux
}
