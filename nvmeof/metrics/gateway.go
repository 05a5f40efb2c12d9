package metrics

import (
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/nvmeof-go/nvmeof/nvmeof/target"
)

// GatewayStats describes the group of a gateway as the gateway sees it, and has its counters.
type GatewayStats struct {
	Store, Name string         // address of the group's store; name of the gateway
	Members     map[string]int // number of gateways by state
	Alarms      map[string]int // number of current alarms by kind
	Groups      []GatewayGroup

	Takeovers map[string]*target.Latencies // durations of this gateway's takeovers of ANA groups, by reason
	Refused   uint64                       // takeovers that were refused
	Requests  map[StoreRequest]*target.Latencies

	StoreAge         time.Duration // time since the last answer of the store
	StoreWriteAge    time.Duration // time since its last answer to a transaction
	Leased           bool          // some groups are served under a lease
	Lease            time.Duration // remaining time of the lease
	Applied, Current int64         // revisions of the configuration: the one that is applied, and that of the store

	Erasing       int // removed namespaces whose data is not erased yet, including ErasingFailed
	ErasingFailed int // those for which an attempt has failed
}

// A GatewayGroup is the state of an ANA group as a gateway sees it.
type GatewayGroup struct {
	ID       int
	Epoch    uint64
	Owned    bool // it has an owner
	Served   bool // this gateway serves it
	Unfenced bool // its storage cannot fence a gateway
}

// A StoreRequest is a kind of request to the group's store, and its result: ok, unknown or failed.
type StoreRequest struct{ Operation, Result string }

type gatewayFamilies struct {
	info, members, alarms, owned, served, epoch, unfenced *family

	takeovers, durations, refused, requests, age, writeAge, lease, applied, current, erasing *family
}

func newGatewayFamilies() *gatewayFamilies {
	return &gatewayFamilies{
		info:      gauge("nvmf_gateway_info", "A gateway of a group, always 1.", "store", "gateway"),
		members:   gauge("nvmf_gateway_members", "Gateways of the group as seen by this one, by state: alive, starting, drained, leaving, sick, silent, unknown or ended.", "store", "state"),
		alarms:    gauge("nvmf_gateway_alarms", "Conditions that need an administrator, by kind; nvmeof gateway list shows the text.", "store", "kind"),
		owned:     gauge("nvmf_gateway_group_owned", "1 while any gateway owns the ANA group.", "store", "group"),
		served:    gauge("nvmf_gateway_group_served", "1 while this gateway serves the ANA group.", "store", "group"),
		epoch:     gauge("nvmf_gateway_group_epoch", "Epoch of the ANA group, which increases with each change of its owner.", "store", "group"),
		unfenced:  gauge("nvmf_gateway_group_unfenced", "1 if the storage of the ANA group cannot fence a gateway (fence: lease).", "store", "group"),
		takeovers: counter("nvmf_gateway_takeovers_total", "ANA groups that this gateway took over, by reason: free (it had no owner), dead (its owner has ended), drain, stuck (its owner reported that it cannot serve: no listener is open, or the storage does not answer), preferred, balance, operator or other.", "store", "reason"),
		durations: histogram("nvmf_gateway_takeover_duration_seconds", "Duration of takeovers, from the last sign of the owner, or from the request that it release the group.", "store", "reason"),
		refused:   counter("nvmf_gateway_refused_takeovers_total", "Takeovers that were refused because the owner cannot be fenced, counted once a minute while it lasts.", "store"),
		requests:  histogram("nvmf_gateway_store_request_duration_seconds", "Duration of requests to the group's store, by operation, get or txn, and by result: ok, unknown (whether a transaction was executed) or failed.", "store", "operation", "result"),
		age:       gauge("nvmf_gateway_store_age_seconds", "Time since the last answer of the group's store.", "store"),
		writeAge:  gauge("nvmf_gateway_store_write_age_seconds", "Time since the group's store last executed a transaction, which heartbeats are; a gateway that is not registered sends none.", "store"),
		lease:     gauge("nvmf_gateway_lease_remaining_seconds", "Time for which groups with fence: lease may be served without an answer of the store; 0: they are not served.", "store"),
		applied:   gauge("nvmf_gateway_config_applied_revision", "Revision of the group's configuration that the target has applied.", "store"),
		current:   gauge("nvmf_gateway_config_current_revision", "Latest revision of the group's configuration in the store that this gateway knows.", "store"),
		erasing:   gauge("nvmf_gateway_erasing", "Removed namespaces whose data is not erased yet, by state: waiting, or failed, which is retried; nvmeof ls shows the error.", "store", "state"),
	}
}

type gatewayCollector struct {
	stats func() *GatewayStats
	*gatewayFamilies
}

// NewGateway returns a collector for a gateway of a group.
func NewGateway(stats func() *GatewayStats) prometheus.Collector {
	if stats == nil {
		return missing("NewGateway's function")
	}
	return &gatewayCollector{stats, newGatewayFamilies()}
}

// Describe implements prometheus.Collector.
func (*gatewayCollector) Describe(chan<- *prometheus.Desc) {}

// Collect implements prometheus.Collector.
func (c *gatewayCollector) Collect(out chan<- prometheus.Metric) {
	to, s := sink(out), c.stats()
	if s == nil {
		missing("what NewGateway's function returns").Collect(out)
		return
	}
	to.put(c.info, 1, s.Store, s.Name)
	for state, n := range s.Members {
		to.put(c.members, float64(n), s.Store, state)
	}
	for kind, n := range s.Alarms {
		to.put(c.alarms, float64(n), s.Store, kind)
	}
	for _, g := range s.Groups {
		id := itoa(g.ID)
		to.flag(c.owned, g.Owned, s.Store, id)
		to.flag(c.served, g.Served, s.Store, id)
		to.put(c.epoch, float64(g.Epoch), s.Store, id)
		to.flag(c.unfenced, g.Unfenced, s.Store, id)
	}
	for reason, l := range s.Takeovers {
		to.put(c.takeovers, float64(l.Count()), s.Store, reason)
		to.latencies(c.durations, l, s.Store, reason)
	}
	for r, l := range s.Requests {
		to.latencies(c.requests, l, s.Store, r.Operation, r.Result)
	}
	to.put(c.refused, float64(s.Refused), s.Store)
	to.put(c.age, s.StoreAge.Seconds(), s.Store)
	to.put(c.writeAge, s.StoreWriteAge.Seconds(), s.Store)
	if s.Leased {
		to.put(c.lease, s.Lease.Seconds(), s.Store)
	}
	to.put(c.applied, float64(s.Applied), s.Store)
	to.put(c.current, float64(s.Current), s.Store)
	to.put(c.erasing, float64(s.Erasing-s.ErasingFailed), s.Store, "waiting")
	to.put(c.erasing, float64(s.ErasingFailed), s.Store, "failed")
}
