package metrics

import (
	"flag"
	"net/http/httptest"
	"net/netip"
	"testing"
	"time"

	"github.com/nvmeof-go/nvmeof/backend/memory"
	"github.com/nvmeof-go/nvmeof/nvmeof"
	"github.com/nvmeof-go/nvmeof/nvmeof/target"
	"github.com/nvmeof-go/nvmeof/rdmatransport"
	"github.com/nvmeof-go/nvmeof/rdmatransport/softroce"
)

var namespaces = flag.Int("namespaces", 300, "how many TestManyNamespaces has")

// TestManyNamespaces measures a scrape of many namespaces. On an idle machine, 10,000 (-namespaces 10000 -v) take
// less than half a second.
func TestManyNamespaces(t *testing.T) {
	device, err := softroce.Open(softroce.Config{Addr: netip.MustParseAddr("127.80.9.13")})
	if err != nil {
		t.Fatal(err)
	}
	defer device.Close()
	tgt, err := target.New(target.Config{Device: device, Polling: nvmeof.PollNever})
	if err != nil {
		t.Fatal(err)
	}
	defer tgt.Close()
	store, err := memory.New(memory.Config{Size: 1 << 20})
	if err != nil {
		t.Fatal(err)
	}
	defer store.Close()
	for left := *namespaces; left > 0; left -= 1000 {
		s, err := tgt.AddSubsystem(target.SubsystemConfig{NQN: nvmeof.NQN("nqn.2026-11.io.example:many" + itoa(uint32(left)))})
		if err != nil {
			t.Fatal(err)
		}
		for range min(left, 1000) {
			if _, err := s.AddNamespace(target.NamespaceConfig{Store: store, Name: "memory"}); err != nil {
				t.Fatal(err)
			}
		}
	}
	handler := Handler(nil, NewTarget(TargetConfig{Target: tgt}), NewSoftroce(func() []rdmatransport.Device { return []rdmatransport.Device{device} }))
	best, size := time.Hour, 0
	for range 3 {
		began := time.Now()
		r := httptest.NewRecorder()
		handler.ServeHTTP(r, httptest.NewRequestWithContext(t.Context(), "GET", Path, nil))
		best, size = min(best, time.Since(began)), r.Body.Len()
	}
	t.Logf("%d namespaces: %v, %d bytes", *namespaces, best, size)
	if perSpace := best / time.Duration(*namespaces); perSpace > time.Millisecond { // twenty times the usual time
		t.Errorf("%v for each namespace", perSpace)
	}
}
