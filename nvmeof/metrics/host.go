package metrics

import (
	"maps"
	"runtime/debug"
	"slices"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/google/uuid"

	"github.com/nvmeof-go/nvmeof/capsule"
	"github.com/nvmeof-go/nvmeof/nvmeof/multipath"
)

// HostConfig configures [NewHost]. A zero field selects the default.
type HostConfig struct {
	Subsystems func() []HostSubsystem // required: returns the connected subsystems
	Version    string                 // version of the program; default: that of its main module
	Started    time.Time              // default: now
}

// A HostSubsystem is a subsystem to which a host is connected.
type HostSubsystem struct {
	Name string // like nvme-subsys0; may be empty if there is only one subsystem
	multipath.Measures
}

// hostFamilies are the metrics of a host.
type hostFamilies struct {
	build, start *family

	subsystem, namespace, size *family

	requests, bytes, errors, duration, inFlight *family

	pathState, pathANA, pathKeepAlive, pathInFlight, pathRequests, pathErrors *family
	reconnects, losses, failures                                              *family
}

func newHostFamilies() *hostFamilies {
	return &hostFamilies{
		build: gauge("nvmf_host_build_info", "Build of the program, always 1.", "version", "revision", "goversion"),
		start: gauge("nvmf_host_start_time_seconds", "Start time of the host, in Unix time."),

		subsystem: gauge("nvmf_host_subsystem_info", "A subsystem that the host is connected to, always 1.", "subsystem", "nqn", "host_nqn"),
		namespace: gauge("nvmf_host_namespace_info", "An open namespace, always 1.", "subsystem", "nqn", "nsid", "uuid"),
		size:      gauge("nvmf_host_namespace_size_bytes", "Size of the namespace.", "subsystem", "nqn", "nsid"),

		requests: counter("nvmf_host_requests_total", "Completed requests, each counted once, independently of the number of commands and attempts.", "subsystem", "nqn", "nsid", "op"),
		bytes:    counter("nvmf_host_data_bytes_total", "Data of successful reads and writes.", "subsystem", "nqn", "nsid", "direction"),
		errors:   counter("nvmf_host_request_errors_total", "Requests that failed finally, by reason: status, with the status code type and status code of the completion, no_path, unknown, lost, removed, canceled, invalid, closed or other.", "subsystem", "nqn", "nsid", "reason", "sct", "sc"),
		duration: histogram("nvmf_host_request_duration_seconds", "Duration of requests, including waits for a path.", "subsystem", "nqn", "nsid", "op"),
		inFlight: gauge("nvmf_host_requests_in_flight", "Requests in progress.", "subsystem", "nqn", "nsid"),

		pathState:     gauge("nvmf_host_path_state", "1 for the state of the path, 0 for the others: connecting, live, lost, refused (its cause must be fixed), deleting, dead.", "subsystem", "nqn", "path", "address", "state"),
		pathANA:       gauge("nvmf_host_path_ana_state", "1 for the ANA state that the controller reports for the group; for the 128 groups with the lowest numbers.", "subsystem", "nqn", "path", "address", "group", "state"),
		pathKeepAlive: gauge("nvmf_host_path_keep_alive_seconds", "Keep alive timeout of the path; 0: none.", "subsystem", "nqn", "path", "address"),
		pathInFlight:  gauge("nvmf_host_path_requests_in_flight", "Requests in flight on the path.", "subsystem", "nqn", "path", "address"),
		pathRequests:  counter("nvmf_host_path_requests_total", "Requests that were completed on the path.", "subsystem", "nqn", "path", "address"),
		pathErrors:    counter("nvmf_host_path_errors_total", "Requests that were completed on the path with an error, whether or not they were retried.", "subsystem", "nqn", "path", "address"),
		reconnects:    counter("nvmf_host_path_reconnects_total", "Times that the path was reconnected.", "subsystem", "nqn", "path", "address"),
		losses:        counter("nvmf_host_path_losses_total", "Times that the controller was lost, by reason: keepalive, timeout, unreachable, disconnected, protocol, transport, device, status, ana, closed or other.", "subsystem", "nqn", "path", "address", "reason"),
		failures:      counter("nvmf_host_path_connect_failures_total", "Attempts to connect that failed: refused or unanswered.", "subsystem", "nqn", "path", "address", "reason"),
	}
}

type hostCollector struct {
	cfg HostConfig
	*hostFamilies
}

// NewHost returns a collector for a host.
func NewHost(cfg HostConfig) prometheus.Collector {
	if cfg.Subsystems == nil {
		return missing("HostConfig.Subsystems")
	}
	if cfg.Started.IsZero() {
		cfg.Started = time.Now()
	}
	return &hostCollector{cfg, newHostFamilies()}
}

// Describe implements prometheus.Collector. It sends nothing, since the set of series changes.
func (*hostCollector) Describe(chan<- *prometheus.Desc) {}

// Collect implements prometheus.Collector.
func (c *hostCollector) Collect(out chan<- prometheus.Metric) {
	to := sink(out)
	to.put(c.build, 1, buildOf(c.cfg.Version)...)
	to.put(c.start, float64(c.cfg.Started.UnixMilli())/1e3)
	for _, s := range c.cfg.Subsystems() {
		for i := range s.Namespaces {
			c.space(to, &s, &s.Namespaces[i])
		}
		for i := range s.Paths {
			p := &s.Paths[i]
			if i == 0 { // all paths have the same host
				to.put(c.subsystem, 1, s.Name, string(s.NQN), string(p.HostNQN))
			}
			c.path(to, &s, p)
		}
	}
}

// buildOf returns the labels of the build information.
func buildOf(version string) []string {
	revision, goversion := "", ""
	if b, ok := debug.ReadBuildInfo(); ok {
		goversion = b.GoVersion
		if version == "" {
			version = b.Main.Version
		}
		for _, s := range b.Settings {
			if s.Key == "vcs.revision" {
				revision = s.Value
			}
		}
	}
	return []string{version, revision, goversion}
}

func (c *hostCollector) space(to sink, s *HostSubsystem, n *multipath.NamespaceMeasures) {
	nqn, id := string(s.NQN), itoa(uint32(n.ID))
	if n.Size > 0 {
		name := ""
		if n.Identifiers.UUID != uuid.Nil {
			name = n.Identifiers.UUID.String()
		}
		to.put(c.namespace, 1, s.Name, nqn, id, name)
		to.put(c.size, float64(n.Size), s.Name, nqn, id)
	}
	to.put(c.inFlight, float64(n.InFlight), s.Name, nqn, id)
	to.count(c.bytes, n.Read, s.Name, nqn, id, "read")
	to.count(c.bytes, n.Written, s.Name, nqn, id, "write")
	for op, h := range n.Kinds() {
		to.put(c.requests, float64(h.Count()), s.Name, nqn, id, op)
		to.latencies(c.duration, h, s.Name, nqn, id, op)
	}
	for f, k := range n.Failures() {
		sct, sc := "", ""
		if f.Reason == "status" {
			sct, sc = itoa(f.Status.SCT()), itoa(f.Status.SC())
		}
		to.count(c.errors, k, s.Name, nqn, id, f.Reason, sct, sc)
	}
}

// pathStates are the names of the states of a multipath.State, and refused.
var pathStates = []string{
	multipath.StateConnecting.String(), multipath.StateLive.String(), multipath.StateLost.String(), "refused",
	multipath.StateDeleting.String(), multipath.StateDead.String(),
}

func (c *hostCollector) path(to sink, s *HostSubsystem, p *multipath.PathStatus) {
	labels := func(more ...string) []string {
		return append([]string{s.Name, string(s.NQN), itoa(p.Number), p.Addr.String()}, more...)
	}
	state := p.State.String()
	if p.Refused && (p.State == multipath.StateConnecting || p.State == multipath.StateLost) {
		state = "refused"
	}
	for _, x := range pathStates {
		to.flag(c.pathState, x == state, labels(x)...)
	}
	for _, group := range firstGroups(p.Groups) {
		for x := range anaStates {
			to.flag(c.pathANA, x == p.Groups[group], labels(itoa(uint32(group)), x.String())...)
		}
	}
	to.put(c.pathKeepAlive, p.KeepAlive.Seconds(), labels()...)
	to.put(c.pathInFlight, float64(p.InFlight), labels()...)
	to.put(c.pathRequests, float64(p.Completed), labels()...)
	to.put(c.pathErrors, float64(p.Errors), labels()...)
	to.put(c.reconnects, float64(p.Reconnects), labels()...)
	for reason, n := range p.Losses {
		to.count(c.losses, n, labels(reason)...)
	}
	for reason, n := range p.Failures {
		to.count(c.failures, n, labels(reason)...)
	}
}

// maxGroups limits the ANA groups of a path that have series, to as many as a target of this module can have. A
// controller can list 32,768 groups for one path, and each would have five series.
const maxGroups = 128

// firstGroups returns the groups with the lowest numbers, at most maxGroups.
func firstGroups(of map[capsule.ANAGroup]capsule.ANAState) []capsule.ANAGroup {
	all := slices.Sorted(maps.Keys(of))
	return all[:min(len(all), maxGroups)]
}

// anaStates yields every ANA state.
func anaStates(yield func(capsule.ANAState) bool) {
	for _, x := range []capsule.ANAState{capsule.ANAOptimized, capsule.ANANonOptimized, capsule.ANAInaccessible, capsule.ANAPersistentLoss, capsule.ANAChange} {
		if !yield(x) {
			return
		}
	}
}
