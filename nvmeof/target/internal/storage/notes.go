package storage

import (
	"slices"
	"sync"

	"go.uber.org/zap"

	"github.com/nvmeof-go/nvmeof/backend"
)

// noted are the notes of a store that were logged.
type noted struct {
	mu    sync.Mutex
	notes []string
}

// newNotes returns the notes of the store since the last call.
func (v *Volume) newNotes() (fresh []string) {
	n, ok := v.store.(backend.Noter)
	if !ok {
		return nil
	}
	now := n.Notes()
	v.noted.mu.Lock()
	defer v.noted.mu.Unlock()
	for _, note := range now {
		if !slices.Contains(v.noted.notes, note) {
			v.noted.notes, fresh = append(v.noted.notes, note), append(fresh, note)
		}
	}
	return fresh
}

// logNotes logs the notes of the store that are new: opening a queue may add some, and so may an examination.
func (v *Volume) logNotes() {
	for _, note := range v.newNotes() {
		v.volumes.log.Warn(note, zap.String("export", v.Name))
	}
}
