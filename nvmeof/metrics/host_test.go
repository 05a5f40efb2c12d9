package metrics

import (
	"context"
	"net/http/httptest"
	"net/netip"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil/promlint"
	dto "github.com/prometheus/client_model/go"

	"github.com/nvmeof-go/nvmeof/capsule"
	"github.com/nvmeof-go/nvmeof/nvmeof"
	"github.com/nvmeof-go/nvmeof/nvmeof/host"
	"github.com/nvmeof-go/nvmeof/nvmeof/multipath"
	"github.com/nvmeof-go/nvmeof/nvmeof/nbd"
	"github.com/nvmeof-go/nvmeof/rdmatransport/softroce"
)

// TestHost checks a scrape of a host that wrote and read, and had a command fail.
func TestHost(t *testing.T) {
	s := connectForTest(t)
	n, err := s.Namespace(t.Context(), 1)
	if err != nil {
		t.Fatal(err)
	}
	for i := range 3 {
		if _, err := n.WriteAt(make([]byte, 4096), int64(i)*4096); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := n.ReadAt(make([]byte, 8192), 0); err != nil {
		t.Fatal(err)
	}
	late, cancel := context.WithCancel(t.Context())
	cancel()
	_ = n.FlushContext(late)
	lost := multipath.PathStatus{Number: 7, Addr: netip.MustParseAddrPort("192.0.2.1:4420"), State: multipath.StateLost, Refused: true,
		Groups: map[capsule.ANAGroup]capsule.ANAState{3: capsule.ANAInaccessible}, Losses: map[string]uint64{"keepalive": 2}, Failures: map[string]uint64{"refused": 5}}
	text := scrapeForTest(t, NewHost(HostConfig{Version: "1.2.3", Subsystems: func() []HostSubsystem {
		m := s.Measure()
		m.Paths = append(m.Paths, lost)
		return []HostSubsystem{{"nvme-subsys0", m}}
	}}))
	for _, want := range []string{
		`nvmf_host_build_info{goversion="go.*",revision=".*",version="1.2.3"} 1`,
		`nvmf_host_subsystem_info{host_nqn="nqn\..*",nqn="NQN",subsystem="nvme-subsys0"} 1`,
		`nvmf_host_namespace_size_bytes{nqn="NQN",nsid="1",subsystem="nvme-subsys0"} 1.048576e\+06`,
		`nvmf_host_namespace_info{nqn="NQN",nsid="1",subsystem="nvme-subsys0",uuid="[0-9a-f-]{36}"} 1`,
		`nvmf_host_requests_total{nqn="NQN",nsid="1",op="write",subsystem="nvme-subsys0"} 3`,
		`nvmf_host_requests_total{nqn="NQN",nsid="1",op="read",subsystem="nvme-subsys0"} 1`,
		`nvmf_host_data_bytes_total{direction="write",nqn="NQN",nsid="1",subsystem="nvme-subsys0"} 12288`,
		`nvmf_host_data_bytes_total{direction="read",nqn="NQN",nsid="1",subsystem="nvme-subsys0"} 8192`,
		`nvmf_host_request_errors_total{nqn="NQN",nsid="1",reason="canceled",sc="",sct="",subsystem="nvme-subsys0"} 1`,
		`nvmf_host_request_duration_seconds_count{nqn="NQN",nsid="1",op="write",subsystem="nvme-subsys0"} 3`,
		`nvmf_host_requests_in_flight{nqn="NQN",nsid="1",subsystem="nvme-subsys0"} 0`,
		`nvmf_host_path_state{address="127.93.1.1:4420",nqn="NQN",path="0",state="live",subsystem="nvme-subsys0"} 1`,
		`nvmf_host_path_state{address="127.93.1.1:4420",nqn="NQN",path="0",state="lost",subsystem="nvme-subsys0"} 0`,
		`nvmf_host_path_ana_state{address="127.93.1.1:4420",group="1",nqn="NQN",path="0",state="optimized",subsystem="nvme-subsys0"} 1`,
		`nvmf_host_path_requests_total{address="127.93.1.1:4420",nqn="NQN",path="0",subsystem="nvme-subsys0"} 4`,
		`nvmf_host_path_keep_alive_seconds{address="127.93.1.1:4420",nqn="NQN",path="0",subsystem="nvme-subsys0"} [1-9].*`,
		`nvmf_host_path_state{address="192.0.2.1:4420",nqn="NQN",path="7",state="refused",subsystem="nvme-subsys0"} 1`,
		`nvmf_host_path_state{address="192.0.2.1:4420",nqn="NQN",path="7",state="lost",subsystem="nvme-subsys0"} 0`,
		`nvmf_host_path_losses_total{address="192.0.2.1:4420",nqn="NQN",path="7",reason="keepalive",subsystem="nvme-subsys0"} 2`,
		`nvmf_host_path_connect_failures_total{address="192.0.2.1:4420",nqn="NQN",path="7",reason="refused",subsystem="nvme-subsys0"} 5`,
	} {
		want = strings.Replace(strings.ReplaceAll(want, "NQN", testNQN), "_total{", "_total\\{", 1)
		if !regexp.MustCompile("(?m)^" + regexp.MustCompile(`^(\w+)\{`).ReplaceAllString(want, `$1\{`) + "$").MatchString(text) {
			t.Errorf("no line %s", want)
		}
	}
	if t.Failed() {
		t.Log(text)
	}
}

// TestHostOfManyGroups: a controller that lists the maximum number of ANA groups does not cause series for all of
// them.
func TestHostOfManyGroups(t *testing.T) {
	p := multipath.PathStatus{Addr: netip.MustParseAddrPort("192.0.2.1:4420"), Groups: map[capsule.ANAGroup]capsule.ANAState{}}
	for i := range capsule.ANAGroup(32 << 10) {
		p.Groups[i+1] = capsule.ANAOptimized
	}
	c := NewHost(HostConfig{Subsystems: func() []HostSubsystem {
		return []HostSubsystem{{"nvme-subsys0", multipath.Measures{NQN: testNQN, Paths: []multipath.PathStatus{p}}}}
	}})
	out := make(chan prometheus.Metric)
	go func() { // ends when all are received
		defer close(out)
		c.Collect(out)
	}()
	series := 0
	for range out {
		series++
	}
	if series < 128*5 || series > 1000 {
		t.Errorf("%d series", series)
	}
}

// connectForTest connects to a target with a namespace of 1 MiB.
func connectForTest(t *testing.T) *multipath.Subsystem {
	t.Helper()
	must := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	at := netip.MustParseAddrPort("127.93.1.1:4420")
	near, err := softroce.Open(softroce.Config{Addr: netip.MustParseAddr("127.93.1.2")})
	must(err)
	t.Cleanup(func() { _ = near.Close() })
	startTarget(t, at)
	h, err := host.New(host.Config{Device: near, Shards: 1, Polling: nvmeof.PollNever})
	must(err)
	t.Cleanup(func() { _ = h.Close() })
	s, err := multipath.Connect(t.Context(), multipath.Config{NQN: testNQN, Paths: []multipath.PathConfig{{Host: h, Options: host.Options{Traddr: at.Addr(), NrIOQueues: 1}}}})
	must(err)
	t.Cleanup(func() { _ = s.Close() })
	return s
}

// scrapeForTest returns a scrape of a collector, which must be well-formed.
func scrapeForTest(t *testing.T, c ...prometheus.Collector) string {
	t.Helper()
	r := httptest.NewRecorder()
	Handler(nil, c...).ServeHTTP(r, httptest.NewRequestWithContext(t.Context(), "GET", Path, nil))
	problems, err := promlint.New(strings.NewReader(r.Body.String())).Lint()
	if r.Code != 200 || err != nil || len(problems) > 0 {
		t.Errorf("%d, %v, %v", r.Code, err, problems)
	}
	return r.Body.String()
}

// TestNBD: each counter of the NBD server is exported, also as the sum of two servers.
func TestNBD(t *testing.T) {
	var s nbd.Stats
	var names []string
	n := uint64(1000)
	number(reflect.ValueOf(&s).Elem(), "", &n, &names)
	s.Add(s)
	out := make(chan prometheus.Metric, 100)
	NewNBD(func() nbd.Stats { return s }).Collect(out)
	close(out)
	var values []float64
	for m := range out {
		var d dto.Metric
		if err := m.Write(&d); err != nil {
			t.Fatal(err)
		}
		values = append(values, d.GetCounter().GetValue())
	}
	for i, name := range names {
		if !slices.Contains(values, float64(2*(1001+i))) {
			t.Errorf("%s is in no metric, or not in the sum: %v", name, values)
		}
	}
	scrapeForTest(t, NewNBD(func() nbd.Stats { return s }))
}
