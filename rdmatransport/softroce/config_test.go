package softroce

import (
	"net/netip"
	"strings"
	"testing"
)

// TestConfigMistakes: an invalid configuration is refused with the name of its field.
func TestConfigMistakes(t *testing.T) {
	at := netip.MustParseAddr("192.0.2.1")
	for field, cfg := range map[string]Config{
		"Addr":           {},
		"PathMTU":        {Addr: at, PathMTU: 5},
		"PathMTU is -1":  {Addr: at, PathMTU: -1},
		"ReceiveBuffer":  {Addr: at, ReceiveBuffer: -1},
		"AckTimeout":     {Addr: at, AckTimeout: -1},
		"ConfirmTimeout": {Addr: at, ConfirmTimeout: -1},
	} {
		cfg.Network = NewNetwork(1)
		d, err := Open(cfg)
		if err == nil {
			d.Close()
		}
		if err == nil || !strings.Contains(err.Error(), "softroce: Config."+field) {
			t.Errorf("%s: %v", field, err)
		}
	}
}
