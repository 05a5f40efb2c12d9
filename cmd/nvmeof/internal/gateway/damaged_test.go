package gateway

import (
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"github.com/nvmeof-go/nvmeof/internal/group"
	"github.com/nvmeof-go/nvmeof/internal/group/state"
	"github.com/nvmeof-go/nvmeof/internal/group/state/simulated"
	"github.com/nvmeof-go/nvmeof/nvmeof/config"
	"github.com/nvmeof-go/nvmeof/nvmeof/control"
)

// TestDamagedNotes: a damaged note is not taken for an empty one. Otherwise a store that has failed would accept writes
// again, and another gateway would create the file again.
func TestDamagedNotes(t *testing.T) {
	t.Parallel()
	const path = config.Path("/srv/disk")
	for _, damage := range []string{"null", "{}", `{"version":1}`, `{"path":"/srv/disk"}`, "damaged"} {
		store := simulated.Share(simulated.New(rand.New(rand.NewPCG(1, 1)))).Open(time.Second)
		g := &Gateway{name: "gw1", store: store}
		for _, key := range []string{faultKey(path), fileKey(path)} {
			if _, err := store.Txn(t.Context(), state.Txn{Then: []state.Op{{Key: key, Value: []byte(damage)}}}); err != nil {
				t.Fatal(err)
			}
		}
		of, err := (&faults{g}).All(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		if f, err := of(path); err == nil || !strings.Contains(err.Error(), faultKey(path)) {
			t.Errorf("%s: a failure %+v, %v", damage, f, err)
		}
		if f, err := of("/srv/other"); err != nil || f.Path != "" {
			t.Errorf("%s: a failure of another file %+v, %v", damage, f, err)
		}
		f := &files{gateway: g, known: map[config.Path]control.FileNote{}}
		if n, err := f.Get(t.Context(), path); err == nil || !strings.Contains(err.Error(), fileKey(path)) {
			t.Errorf("%s: a note %+v, %v", damage, n, err)
		}
	}
}

// TestRecordByHand: a record that was put by hand into an object of Ceph, and so has a revision that no transaction has
// had, does not hide the changes that follow.
func TestRecordByHand(t *testing.T) {
	t.Parallel()
	ks := newKeepers(&Gateway{})
	const key = group.RecordPrefix + "namespace"
	for _, r := range []state.Revision{2, 0x78ffffffffffffff, 4} {
		ks.changed(state.Snapshot{Revision: 4, Entries: []state.Entry{{Key: key, Revision: r}}}, false)
	}
	if ks.seen[key] != 4 {
		t.Errorf("revision %d is the last that was seen", ks.seen[key])
	}
}
