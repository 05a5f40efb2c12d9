package storage

import (
	"fmt"

	"go.uber.org/zap"

	"github.com/nvmeof-go/nvmeof/backend"
	"github.com/nvmeof-go/nvmeof/nvmeof/events"
)

// holes are what is gone of the storage of a store. Whoever empties a file that is served, and a host that
// writes to its end before the size is looked at again, leave one of the size that it had.
type holes struct {
	bytes    int64
	accepted int64 // of them, by an administrator
}

// look notes how many bytes are gone now, and reports whether these are the first.
func (h *holes) look(now int64) (first bool) {
	first = h.bytes <= h.accepted && now > h.accepted
	h.bytes, h.accepted = now, min(h.accepted, now) // hosts, or who restores the data, fill them
	return first
}

// accept has those of now be right, and reports whether there were any.
func (h *holes) accept() bool {
	were := h.bytes > h.accepted
	h.accepted = h.bytes
	return were
}

// why is what is wrong with them; empty: nothing.
func (h *holes) why() string {
	if h.bytes <= h.accepted {
		return ""
	}
	return fmt.Sprintf("%d bytes of its storage are gone: somebody has cut it short, and it was made longer again, or has punched holes into it, and hosts read zeroes there; "+
		"stop the hosts, and restore the data; if nobody misses any: nvmeof namespace clear-fault", h.bytes-h.accepted)
}

// lookForHoles looks for them. Called with querying held.
func (v *Volume) lookForHoles() {
	p, ok := v.store.(backend.StorageKeeper)
	if !ok {
		return
	}
	n, err := p.Missing()
	if err != nil || !v.holes.look(n) {
		return
	}
	v.happened(events.Error, "has lost storage while it is served: "+v.holes.why())
	v.volumes.log.Error("a file has lost storage while it is served: hosts read zeroes where there may have been data", zap.String("export", v.Name),
		zap.Int64("bytes", n), zap.String("remedy", "stop the hosts, and restore the data"))
}
