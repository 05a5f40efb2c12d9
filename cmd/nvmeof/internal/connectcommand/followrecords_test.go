package connectcommand

import (
	"errors"
	"testing"

	"github.com/nvmeof-go/nvmeof/nvmeof/discovery"
)

// TestEnded: what was given up is connected to again, and what somebody had disconnected is not, also when
// a later controller of the name is given up.
func TestEnded(t *testing.T) {
	record := func(port uint16) (r discovery.Record) {
		r.Entry.PORTID = port
		return r
	}
	a := &autoconnect{connected: map[string]discovery.Record{"nvme0": record(1), "nvme1": record(2), "nvme2": record(3)}}
	lost := errors.New("it was away")
	a.ended(map[string]error{"nvme0": lost, "nvme1": nil, "nvme9": lost})
	a.ended(map[string]error{"nvme0": lost, "nvme1": lost})
	if len(a.again) != 1 || a.again[0].record.Entry.PORTID != 1 || len(a.connected) != 1 {
		t.Errorf("again: %+v, connected: %v", a.again, a.connected)
	}
}
