package metrics

import (
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/nvmeof-go/nvmeof/nvmeof/nbd"
	"github.com/nvmeof-go/nvmeof/rdmatransport"
)

func noStats() nbd.Stats { return nbd.Stats{} }

func noDevices() []rdmatransport.Device { return nil }

// TestMissing: a collector without a required value returns an error when it is gathered, and to clients of the
// handler.
func TestMissing(t *testing.T) {
	for want, c := range map[string]prometheus.Collector{
		"TargetConfig.Target":     NewTarget(TargetConfig{}),
		"HostConfig.Subsystems":   NewHost(HostConfig{}),
		"NewNBD's function":       NewNBD(nil),
		"NewSoftroce's function":  NewSoftroce(nil),
		"NewGateway's function":   NewGateway(nil),
		"a collector of Handler":  nil,
		"what NewGateway's funct": NewGateway(func() *GatewayStats { return nil }),
	} {
		if c != nil {
			r := prometheus.NewRegistry()
			r.MustRegister(c)
			if _, err := r.Gather(); err == nil || !strings.Contains(err.Error(), "metrics: "+want) || !strings.Contains(err.Error(), "is missing") {
				t.Errorf("gathered: %v, want %s", err, want)
			}
		}
		w := httptest.NewRecorder()
		Handler(nil, c).ServeHTTP(w, httptest.NewRequest("GET", Path, nil))
		if w.Code != 500 || !strings.Contains(w.Body.String(), want) {
			t.Errorf("read: %d, %s", w.Code, w.Body)
		}
	}
}
