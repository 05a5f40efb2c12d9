package gateway

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/nvmeof-go/nvmeof/capsule"
	"github.com/nvmeof-go/nvmeof/internal/group/state"
	"github.com/nvmeof-go/nvmeof/internal/group/state/simulated"
)

// TestListsOfOthers: of the lists of controllers in the store, those are used that this version has the format of, of
// gateways that have not ended.
func TestListsOfOthers(t *testing.T) {
	t.Parallel()
	const nqn, format = "nqn.2026-11.org.example:disk", `{"version":%d,"controllers":{"nqn.2026-11.org.example:disk":{"01000000000000000000000000000000":[%d]}}}`
	store := simulated.Share(simulated.New(rand.New(rand.NewPCG(5, 1)))).Open(time.Hour)
	g := &Gateway{name: "gw1", store: store, states: map[string]string{"gw2": "serves", "gw3": "serves", "gw4": "serves", "gw5": "ended"}}
	put := state.Txn{}
	for name, value := range map[string]string{"gw2": fmt.Sprintf(format, 1, 2), "gw3": fmt.Sprintf(format, 2, 3), "gw4": "{", "gw5": fmt.Sprintf(format, 1, 5)} {
		put.Then = append(put.Then, state.Op{Key: directoryPrefix + name, Value: []byte(value)})
	}
	if _, err := store.Txn(t.Context(), put); err != nil {
		t.Fatal(err)
	}
	d := directory{gateway: g}
	d.read(t.Context())
	if got := d.of(nqn, capsule.HostID{1}); !slices.Equal(got, []capsule.ControllerID{2}) {
		t.Errorf("controllers %v, want 2 alone", got)
	}
}
