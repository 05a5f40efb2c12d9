package administer

import (
	"strings"
	"testing"

	"github.com/nvmeof-go/nvmeof/nvmeof"
	"github.com/nvmeof-go/nvmeof/nvmeof/control"
)

// TestOneController checks the selection of a controller by ID: several subsystems use the same IDs, and a discovery
// controller is not taken for another one.
func TestOneController(t *testing.T) {
	all := []control.Controller{{Subsystem: "discovery", ID: 7}, {Subsystem: "a", ID: 7}, {Subsystem: "a", ID: 8}}
	for _, c := range []struct {
		id, nqn string
		of      nvmeof.NQN
		wrong   string
	}{
		{id: "8", of: "a"},
		{id: "7", nqn: "a", of: "a"},
		{id: "7", nqn: "discovery", of: "discovery"},
		{id: "7", wrong: "controller 7 exists in each of discovery, a: select one with --nqn"},
		{id: "9", wrong: "controller 9 does not exist; there is 7, 8"},
		{id: "8", nqn: "discovery", wrong: "there is 7"},
	} {
		found, err := oneController(all, c.id, nvmeof.NQN(c.nqn))
		switch {
		case c.wrong != "":
			if err == nil || !strings.Contains(err.Error(), c.wrong) {
				t.Errorf("%+v: %v", c, err)
			}
		case err != nil || found.Subsystem != c.of:
			t.Errorf("%+v: %v, %v", c, found, err)
		}
	}
}
