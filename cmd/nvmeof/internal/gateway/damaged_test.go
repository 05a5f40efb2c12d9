package gateway

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"go.uber.org/zap"

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

// TestRefusedIsNotDamaged: a store that refuses the gateway, as after a change of the password, is not reported as one with
// a damaged key, which the administrator would then restore.
func TestRefusedIsNotDamaged(t *testing.T) {
	t.Parallel()
	g := &Gateway{cfg: Config{Log: zap.NewNop(), Alarm: func(group.Alarm) {}}, alarms: map[group.Alarm]time.Time{}}
	for err, want := range map[error]int{fmt.Errorf("etcd at a: %w", state.ErrRefused): 0, errors.New("config/current is damaged"): 1} {
		g.unfollowed(&control.GroupError{Err: err})
		if all := g.alarmed(); len(all) != want {
			t.Errorf("%v: %v", err, all)
		}
		clear(g.alarms)
	}
}

// TestPasswordFile: the end of the line does not belong to the password, and the file is read again for a new one.
func TestPasswordFile(t *testing.T) {
	t.Parallel()
	file := filepath.Join(t.TempDir(), "password")
	for text, want := range map[string]string{"first\n": "first", " two words\r\n": " two words"} {
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		if got, err := passwordIn(t.Context(), config.Path(file)); err != nil || got != want {
			t.Errorf("%q: %q, %v", text, got, err)
		}
	}
}
