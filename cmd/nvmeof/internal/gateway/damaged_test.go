package gateway

import (
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"github.com/nvmeof-go/nvmeof/internal/group/state"
	"github.com/nvmeof-go/nvmeof/internal/group/state/simulated"
	"github.com/nvmeof-go/nvmeof/nvmeof/config"
	"github.com/nvmeof-go/nvmeof/nvmeof/control"
)

// TestDamagedNotes: a note that no gateway has written is not one that says nothing. The store would take writes again
// that has failed, and the file be another gateway's to make.
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
