package metrics_test

import (
	"fmt"
	"net/http/httptest"
	"net/netip"
	"strings"

	"github.com/nvmeof-go/nvmeof/backend/memory"
	"github.com/nvmeof-go/nvmeof/nvmeof/metrics"
	"github.com/nvmeof-go/nvmeof/nvmeof/target"
	"github.com/nvmeof-go/nvmeof/rdmatransport"
	"github.com/nvmeof-go/nvmeof/rdmatransport/softroce"
)

// A program with a target exports its counters together with its own.
func Example() {
	device := must(softroce.Open(softroce.Config{Addr: netip.MustParseAddr("127.80.9.1")}))
	defer device.Close()
	t := must(target.New(target.Config{Device: device}))
	defer t.Close()
	store := must(memory.New(memory.Config{Size: 1 << 20}))
	defer store.Close()
	s := must(t.AddSubsystem(target.SubsystemConfig{NQN: "nqn.2026-11.org.example:disk"}))
	must(s.AddNamespace(target.NamespaceConfig{Store: store}))

	devices := func() []rdmatransport.Device { return []rdmatransport.Device{device} }
	handler := metrics.Handler(nil, metrics.NewTarget(metrics.TargetConfig{Target: t, Devices: devices}), metrics.NewSoftroce(devices))
	// http.Handle(metrics.Path, handler) serves them.
	answer := httptest.NewRecorder()
	handler.ServeHTTP(answer, httptest.NewRequest("GET", metrics.Path, nil))
	for line := range strings.Lines(answer.Body.String()) {
		if strings.HasPrefix(line, "nvmf_namespace_size_bytes") {
			fmt.Print(line)
		}
	}
	// Output: nvmf_namespace_size_bytes{nqn="nqn.2026-11.org.example:disk",nsid="1"} 1.048576e+06
}

func must[T any](v T, err error) T {
	if err != nil {
		panic(err)
	}
	return v
}
