package metrics

import (
	"github.com/prometheus/client_golang/prometheus"

	"github.com/nvmeof-go/nvmeof/nvmeof/nbd"
)

type nbdCollector struct {
	stats func() nbd.Stats

	clients, refused, ended, requests, errors *family
}

// NewNBD returns a collector for NBD servers, whose counters it adds up.
func NewNBD(stats func() nbd.Stats) prometheus.Collector {
	if stats == nil {
		return missing("NewNBD's function")
	}
	return &nbdCollector{
		stats:    stats,
		clients:  counter("nvmf_host_nbd_clients_total", "NBD clients that were accepted."),
		refused:  counter("nvmf_host_nbd_refused_clients_total", "NBD clients that were refused, by reason: too_many, hung (their disk does not complete requests of clients that have gone), share (their disk has its share of the clients); unaccepted counts times that a client had to wait because the process had no file descriptor or the machine no memory.", "reason"),
		ended:    counter("nvmf_host_nbd_ended_clients_total", "NBD clients that were disconnected, by reason: lost (without a disconnect request), gave_way and slow (in the handshake), bad_handshake and bad_request (for invalid messages).", "reason"),
		requests: counter("nvmf_host_nbd_requests_total", "Requests of NBD clients."),
		errors:   counter("nvmf_host_nbd_request_errors_total", "Requests of NBD clients that were answered with an error, by reason: refused at once, or failed.", "reason"),
	}
}

// Describe implements prometheus.Collector.
func (*nbdCollector) Describe(chan<- *prometheus.Desc) {}

// Collect implements prometheus.Collector.
func (c *nbdCollector) Collect(out chan<- prometheus.Metric) {
	to, s := sink(out), c.stats()
	put := func(f *family, n uint64, labels ...string) { to.put(f, float64(n), labels...) }
	put(c.clients, s.Clients)
	put(c.refused, s.TooMany, "too_many")
	put(c.refused, s.Unaccepted, "unaccepted")
	put(c.refused, s.Stuck, "hung")
	put(c.refused, s.Share, "share")
	put(c.ended, s.GaveWay, "gave_way")
	put(c.ended, s.Slow, "slow")
	put(c.ended, s.BadHandshake, "bad_handshake")
	put(c.ended, s.BadRequests, "bad_request")
	put(c.ended, s.Lost, "lost")
	put(c.requests, s.Requests)
	put(c.errors, s.Refused, "refused")
	put(c.errors, s.Failed, "failed")
}
