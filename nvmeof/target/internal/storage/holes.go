package storage

import (
	"fmt"

	"go.uber.org/zap"

	"github.com/nvmeof-go/nvmeof/backend"
	"github.com/nvmeof-go/nvmeof/nvmeof/events"
)

// holes counts lost storage of a store. If a file is truncated while it is served, and a host then writes to its
// old end before the size is checked again, the file has its old size, but with a hole.
type holes struct {
	bytes    int64
	accepted int64 // part of bytes that an administrator has accepted
}

// look sets how many bytes are missing now, and reports whether these are the first.
func (h *holes) look(now int64) (first bool) {
	first = h.bytes <= h.accepted && now > h.accepted
	h.bytes, h.accepted = now, min(h.accepted, now) // holes shrink when hosts write there, or the data is restored
	return first
}

// accept accepts the current holes, and reports whether there were any that were not accepted.
func (h *holes) accept() bool {
	were := h.bytes > h.accepted
	h.accepted = h.bytes
	return were
}

// why describes the holes that were not accepted, or returns an empty string.
func (h *holes) why() string {
	if h.bytes <= h.accepted {
		return ""
	}
	return fmt.Sprintf("%d bytes of its storage are gone, and hosts read zeroes there: the file was truncated and extended again, or holes were punched into it; "+
		"stop the hosts, and restore the data; if no data is missing: nvmeof namespace clear-fault", h.bytes-h.accepted)
}

// lookForHoles queries the store for holes, and logs the first. Called with querying held.
func (v *Volume) lookForHoles() {
	p, ok := v.store.(backend.StorageKeeper)
	if !ok {
		return
	}
	n, err := p.Missing()
	if err != nil || !v.holes.look(n) {
		return
	}
	v.recordEvent(events.Error, "has lost storage while it is served: "+v.holes.why())
	v.volumes.log.Error("a file has lost storage while it is served: hosts read zeroes where there may have been data", zap.String("export", v.Name),
		zap.Int64("bytes", n), zap.String("remedy", "stop the hosts, and restore the data"))
}
