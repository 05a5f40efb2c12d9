package storage

import (
	"slices"
	"testing"
	"time"

	"go.uber.org/zap"
	"go.uber.org/zap/zaptest/observer"

	"github.com/nvmeof-go/nvmeof/nvmeof/target/internal/peerlog"
	"github.com/nvmeof-go/nvmeof/nvmeof/target/internal/reservation"
)

// A notingStore is a store with notes.
type notingStore struct {
	slowStore
	notes []string
}

func (s *notingStore) Notes() []string { return s.notes }

// TestNotesOfOpenStore: a note that a store adds while it is served is logged, once. Those that it had as it was opened
// were logged then.
func TestNotesOfOpenStore(t *testing.T) {
	t.Parallel()
	core, logs := observer.New(zap.WarnLevel)
	var all Volumes
	all.Init(1, peerlog.New(zap.New(core)))
	s := &notingStore{slowStore{asked: func() {}}, []string{"as it was opened"}}
	n := NewNamespace(Identity{ID: 1}, 1, false)
	if err := all.Acquire(s, "noting", nil, reservation.Owner{}, n); err != nil {
		t.Fatal(err)
	}
	n.Volume.LookAt(time.Now())
	s.notes = []string{"in between", "as it was opened", "at the end"}
	for range 2 {
		n.Volume.LookAt(time.Now())
	}
	var got []string
	for _, e := range logs.All() {
		got = append(got, e.Message)
	}
	if want := []string{"in between", "at the end"}; !slices.Equal(got, want) {
		t.Errorf("logged %q, want %q", got, want)
	}
}
