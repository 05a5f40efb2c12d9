package metrics

import (
	"context"
	"flag"
	"fmt"
	"io"
	"maps"
	"math"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"os"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil/promlint"
	dto "github.com/prometheus/client_model/go"
	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"

	"github.com/nvmeof-go/nvmeof/backend/memory"
	"github.com/nvmeof-go/nvmeof/capsule"
	"github.com/nvmeof-go/nvmeof/nvmeof"
	"github.com/nvmeof-go/nvmeof/nvmeof/host"
	"github.com/nvmeof-go/nvmeof/nvmeof/target"
	"github.com/nvmeof-go/nvmeof/rdmatransport"
	"github.com/nvmeof-go/nvmeof/rdmatransport/softroce"
)

const testNQN = "nqn.2026-11.io.example:metrics"

// startTarget starts a target with a namespace of 1 MiB in memory.
func startTarget(t *testing.T, at netip.AddrPort) (*target.Target, *target.Subsystem, *softroce.Device) {
	t.Helper()
	must := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	device, err := softroce.Open(softroce.Config{Addr: at.Addr()})
	must(err)
	t.Cleanup(func() { _ = device.Close() })
	tgt, err := target.New(target.Config{Device: device, Polling: nvmeof.PollNever})
	must(err)
	t.Cleanup(func() { _ = tgt.Close() })
	sub, err := tgt.AddSubsystem(target.SubsystemConfig{NQN: testNQN})
	must(err)
	sub.AllowAnyHost(true)
	store, err := memory.New(memory.Config{Size: 1 << 20})
	must(err)
	t.Cleanup(func() { _ = store.Close() })
	_, err = sub.AddNamespace(target.NamespaceConfig{Store: store, Name: "memory"})
	must(err)
	_, err = tgt.Listen(at)
	must(err)
	return tgt, sub, device
}

// serve starts a target with a namespace in memory, and a host that writes and reads.
func serve(t *testing.T) (collectors []prometheus.Collector) {
	t.Helper()
	must := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	at := netip.MustParseAddrPort("127.80.9.11:4420")
	tgt, sub, device := startTarget(t, at)
	must(sub.AwaitNamespace(target.NamespaceConfig{NSID: 2}))

	from, err := softroce.Open(softroce.Config{Addr: netip.MustParseAddr("127.80.9.12")})
	must(err)
	t.Cleanup(func() { _ = from.Close() })
	h, err := host.New(host.Config{Device: from, Shards: 1, Polling: nvmeof.PollNever})
	must(err)
	t.Cleanup(func() { _ = h.Close() })
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
	defer cancel()
	c, err := h.Connect(ctx, host.Options{Traddr: at.Addr(), NQN: testNQN, NrIOQueues: 1})
	must(err)
	n, err := c.Namespace(ctx, 1)
	must(err)
	for i := range 3 {
		_, err = n.WriteAt(make([]byte, 16384), int64(i)*16384)
		must(err)
	}
	_, err = n.ReadAt(make([]byte, 8192), 0)
	must(err)
	devices := func() []rdmatransport.Device { return []rdmatransport.Device{device} }
	var lines LogCounter
	zap.New(zapcore.NewNopCore()).WithOptions(zap.Hooks(lines.Count)).Info("a line")
	_ = lines.Count(zapcore.Entry{Level: zapcore.WarnLevel})
	control := maps.All(map[ControlRequest]uint64{{"GET", "/v1/subsystems/{nqn}", 404}: 3})
	_, err = h.Discover(ctx, host.Options{Traddr: at.Addr()})
	must(err)
	must(tgt.Listeners()[0].SetANAState(1, capsule.ANANonOptimized))
	must(n.Reservations().Register(ctx, 7, host.RegisterOptions{}))
	return []prometheus.Collector{NewTarget(TargetConfig{Target: tgt, Version: "1.2.3", Devices: devices, Hosts: true, Control: control, Log: &lines}), NewSoftroce(devices)}
}

// TestHandler checks a scrape.
func TestHandler(t *testing.T) {
	handler := Handler(nil, serve(t)...)
	r := httptest.NewRecorder()
	handler.ServeHTTP(r, httptest.NewRequestWithContext(t.Context(), "GET", Path, nil))
	body, _ := io.ReadAll(r.Result().Body)
	text := string(body)
	if r.Code != http.StatusOK {
		t.Fatalf("%d: %s", r.Code, text)
	}
	for _, want := range []string{
		`nvmf_build_info{goversion="go.*",revision=".*",version="1.2.3"} 1`,
		`nvmf_subsystem_info{allow_any_host="true",model="nvmeof",nqn="nqn.2026-11.io.example:metrics",serial="[0-9a-f]{20}"} 1`,
		`nvmf_subsystem_namespaces{nqn="nqn.2026-11.io.example:metrics"} 2`,
		`nvmf_namespace_info{ana_group="1",backend="memory",nqn="nqn.2026-11.io.example:metrics",nsid="1",source="memory",uuid="[0-9a-f-]{36}"} 1`,
		`nvmf_namespace_size_bytes{nqn="nqn.2026-11.io.example:metrics",nsid="1"} 1.048576e\+06`,
		`nvmf_namespace_ready{nqn="nqn.2026-11.io.example:metrics",nsid="1"} 1`,
		`nvmf_namespace_ready{nqn="nqn.2026-11.io.example:metrics",nsid="2"} 0`,
		`nvmf_commands_in_flight{nqn="nqn.2026-11.io.example:metrics",nsid="1"} 0`,
		`nvmf_commands_total{nqn="nqn.2026-11.io.example:metrics",nsid="1",op="write"} 3`,
		`nvmf_commands_total{nqn="nqn.2026-11.io.example:metrics",nsid="1",op="read"} 1`,
		`nvmf_data_bytes_total{direction="write",nqn="nqn.2026-11.io.example:metrics",nsid="1"} 49152`,
		`nvmf_data_bytes_total{direction="read",nqn="nqn.2026-11.io.example:metrics",nsid="1"} 8192`,
		`nvmf_command_duration_seconds_bucket{nqn="nqn.2026-11.io.example:metrics",nsid="1",op="write",le="10.0"} 3`,
		`nvmf_command_duration_seconds_count{nqn="nqn.2026-11.io.example:metrics",nsid="1",op="write"} 3`,
		`nvmf_fabric_duration_seconds_count{op="write"} 3`,
		`nvmf_connects_total{result="ok"} 3`,
		`nvmf_admin_commands_total{opcode="connect",result="ok"} 3`,
		`nvmf_admin_commands_total{opcode="identify",result="ok"} [1-9][0-9]*`,
		`nvmf_controllers{kind="io",nqn="nqn.2026-11.io.example:metrics"} 1`,
		`nvmf_queue_pairs{kind="io"} 1`,
		`nvmf_ana_state{group="1",listener="127.80.9.11:4420",nqn="nqn.2026-11.io.example:metrics",state="non-optimized"} 1`,
		`nvmf_ana_state{group="1",listener="127.80.9.11:4420",nqn="nqn.2026-11.io.example:metrics",state="optimized"} 0`,
		`nvmf_ana_changes_total{group="1",to="non-optimized"} 1`,
		`nvmf_discovery_requests_total{result="ok"} [1-9]`,
		`nvmf_host_connected{host_address="127.80.9.12",host_nqn="nqn.*",nqn="nqn.2026-11.io.example:metrics"} 1`,
		`nvmf_control_requests_total{code="404",method="GET",route="/v1/subsystems/{nqn}"} 3`,
		`nvmf_reservation_changes_total{action="register",result="ok"} 1`,
		`nvmf_reservation_registrants{nqn="nqn.2026-11.io.example:metrics",nsid="1"} 1`,
		`nvmf_log_events_total{level="warn"} 1`,
		`nvmf_log_events_total{level="error"} 0`,
		`nvmf_shard_busy_seconds_total{shard="0"} [0-9.e-]+`,
		`nvmf_shard_loop_seconds_count{shard="0"} [0-9]+`,
		`nvmf_auth_total{result="failed"} 0`,
		`roce_packets_total{direction="in",opcode_class="send"} [1-9][0-9.e+]*`,
		`roce_packets_total{direction="out",opcode_class="write"} [1-9][0-9.e+]*`,
		`roce_packets_total{direction="out",opcode_class="cm"} [1-9][0-9.e+]*`,
		`roce_packets_total{direction="in",opcode_class="invalid"} 0`,
		`roce_rtt_seconds_count{device="[0-9.]+"} [1-9][0-9.e+]*`,
		`roce_queue_pairs 2`,
		`go_goroutines [0-9]+`,
		`process_open_fds [0-9]+`,
	} {
		want = strings.ReplaceAll(want, `le="10.0"`, `le="10(\.0)?"`)
		if !regexp.MustCompile("(?m)^" + strings.NewReplacer("{n", `\{n`, "{a", `\{a`, "{g", `\{g`, "{d", `\{d`, "{o", `\{o`, "{k", `\{k`, "{l", `\{l`, "{h", `\{h`, "{c", `\{c`, "{s", `\{s`, "{r", `\{r`).Replace(want) + "$").MatchString(text) {
			t.Errorf("no line %s", want)
		}
	}
	problems, err := promlint.New(strings.NewReader(text)).Lint()
	if err != nil || len(problems) > 0 {
		t.Errorf("%v %v", problems, err)
	}
	if t.Failed() {
		t.Log(text)
	}
	r = httptest.NewRecorder()
	handler.ServeHTTP(r, httptest.NewRequestWithContext(t.Context(), "GET", "/", nil))
	if !strings.Contains(r.Body.String(), Path) {
		t.Errorf("/ has %q", r.Body)
	}
}

// TestTogether: if many namespaces have had commands, each subsystem has one histogram.
func TestTogether(t *testing.T) {
	all := serve(t)
	all[0].(*targetCollector).cfg.Histograms = -1
	r := httptest.NewRecorder()
	Handler(nil, all...).ServeHTTP(r, httptest.NewRequestWithContext(t.Context(), "GET", Path, nil))
	text := r.Body.String()
	if !strings.Contains(text, `nvmf_command_duration_seconds_count{nqn="nqn.2026-11.io.example:metrics",nsid="",op="write"} 3`) ||
		!strings.Contains(text, `nvmf_commands_total{nqn="nqn.2026-11.io.example:metrics",nsid="1",op="write"} 3`) ||
		strings.Contains(text, `nvmf_command_duration_seconds_count{nqn="nqn.2026-11.io.example:metrics",nsid="1"`) {
		t.Error(text)
	}
}

// TestNative: the native buckets have the right bounds and counts.
func TestNative(t *testing.T) {
	var l target.Latencies
	for _, d := range []time.Duration{0, 500, 3 * time.Microsecond, 3 * time.Microsecond, 4 * time.Microsecond, time.Second, time.Hour} {
		l.Observe(int64(d))
	}
	var m dto.Metric
	f := histogram("x_seconds", "help")
	if err := (&latencies{f.desc, nil, &l}).Write(&m); err != nil {
		t.Fatal(err)
	}
	h := m.Histogram
	if h.GetSampleCount() != 7 || h.GetZeroCount() != 2 || h.GetSchema() != 2 || h.GetZeroThreshold() != math.Exp2(-20) || len(h.Bucket) != 19 {
		t.Errorf("%v", h)
	}
	// Each bucket counts values above the previous bound up to its own.
	at, n, i := 0, int64(0), 0
	got := map[int]int64{}
	for _, s := range h.PositiveSpan {
		at += int(s.GetOffset())
		for range s.GetLength() {
			n += h.PositiveDelta[i]
			got[at] = n
			at, i = at+1, i+1
		}
	}
	want := map[int]int64{}
	for _, d := range []float64{3e-6, 3e-6, 4e-6, 1} {
		want[int(math.Ceil(math.Log2(d)*4))]++
	}
	want[6<<2+1]++ // above the last bound
	if !maps.Equal(got, want) || i != len(h.PositiveDelta) {
		t.Errorf("buckets %v, want %v", got, want)
	}
}

// TestEveryCounter: each counter of the endpoint is exported.
func TestEveryCounter(t *testing.T) {
	var s softroce.Stats
	var names []string
	n := uint64(1000)
	number(reflect.ValueOf(&s).Elem(), "", &n, &names)
	c := NewSoftroce(noDevices).(*softroceCollector)
	out := make(chan prometheus.Metric, 1000)
	c.show(out, &s)
	close(out)
	var values []float64
	for m := range out {
		var d dto.Metric
		if err := m.Write(&d); err != nil {
			t.Fatal(err)
		}
		values = append(values, d.GetCounter().GetValue())
	}
	apart := []string{ // redundant ones
		".Faults[0]", ".UDP.ReceiveCalls", ".UDP.Datagrams", ".UDP.Merged", ".UDP.SendCalls", ".UDP.Messages",
		".PacketsIn", ".PacketsOut", ".SendDropped", ".ClassesIn[0]", ".ClassesOut[0]", // sums of others, and the classes of unknown opcodes
	}
	for i, name := range names {
		if v := float64(1001 + i); !slices.Contains(values, v) && !slices.Contains(apart, name) {
			t.Errorf("%s is in no metric", name)
		}
	}
}

// number sets each counter to a different value.
func number(v reflect.Value, name string, n *uint64, names *[]string) {
	switch v.Kind() {
	case reflect.Uint64:
		*n++
		v.SetUint(*n)
		*names = append(*names, name)
	case reflect.Array:
		for i := range v.Len() {
			number(v.Index(i), name+"["+itoa(uint32(i))+"]", n, names)
		}
	case reflect.Struct:
		for i := range v.NumField() {
			if f := v.Type().Field(i); f.IsExported() { // the others belong to a histogram, which TestHandler checks
				number(v.Field(i), name+"."+f.Name, n, names)
			}
		}
	}
}

var update = flag.Bool("update", false, "write the tables of docs/monitoring.md anew")

// TestDocumented: docs/monitoring.md lists all families.
func TestDocumented(t *testing.T) {
	const page = "../../docs/monitoring.md"
	b, err := os.ReadFile(page)
	if err != nil {
		t.Fatal(err)
	}
	text := string(b)
	for _, table := range []string{describe(newFamilies()), describe(newHostFamilies()), describe(NewNBD(noStats)), describe(newGatewayFamilies()), describe(NewSoftroce(noDevices))} {
		name := strings.SplitN(table, "`", 3)[1]
		at := strings.Index(text, "| metric | labels | |\n|---|---|---|\n| `"+name+"`")
		switch {
		case at >= 0:
			end := at + strings.Index(text[at:], "\n\n") + 1
			if text[at:end] == table {
				continue
			}
			text = text[:at] + table + text[end:]
		case strings.HasPrefix(name, "roce"):
			text = strings.Replace(text, "SOFTROCE\n", table, 1)
		case strings.HasPrefix(name, "nvmf_gateway"):
			text = strings.Replace(text, "GATEWAY\n", table, 1)
		case strings.HasPrefix(name, "nvmf_host_nbd"):
			text = strings.Replace(text, "NBD\n", table, 1)
		case strings.HasPrefix(name, "nvmf_host"):
			text = strings.Replace(text, "HOST\n", table, 1)
		default:
			text = strings.Replace(text, "TARGET\n", table, 1)
		}
		if !*update {
			t.Errorf("%s has not the table of %s as it is: go test ./nvmeof/metrics -update", page, name)
		}
	}
	if *update {
		if err := os.WriteFile(page, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
}

// describe returns the table of the families of a structure, in the order of its fields.
func describe(of any) string {
	var b strings.Builder
	b.WriteString("| metric | labels | |\n|---|---|---|\n")
	v := reflect.ValueOf(of).Elem()
	for i := range v.NumField() {
		if v.Field(i).Type() != reflect.TypeFor[*family]() {
			continue
		}
		f := *(**family)(v.Field(i).Addr().UnsafePointer())
		fmt.Fprintf(&b, "| `%s` | %s | %s |\n", f.name, strings.Join(f.labels, ", "), f.help)
	}
	return b.String()
}

// TestSource: a label has the exported path unchanged; the format escapes it.
func TestSource(t *testing.T) {
	tgt, sub, _ := startTarget(t, netip.MustParseAddrPort("127.80.9.13:4420"))
	store, err := memory.New(memory.Config{Size: 1 << 20})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = store.Close() })
	if _, err := sub.AddNamespace(target.NamespaceConfig{Store: store, NSID: 2, Name: "/tmp/a b,ü\"\xff.img"}); err != nil {
		t.Fatal(err)
	}
	r := httptest.NewRecorder()
	Handler(nil, NewTarget(TargetConfig{Target: tgt})).ServeHTTP(r, httptest.NewRequestWithContext(t.Context(), "GET", Path, nil))
	if want := "source=\"/tmp/a b,ü\\\"\uFFFD.img\""; !strings.Contains(r.Body.String(), want) {
		t.Errorf("no %s in\n%s", want, r.Body)
	}
}
