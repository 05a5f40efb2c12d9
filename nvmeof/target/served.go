package target

import (
	"github.com/google/uuid"

	"github.com/nvmeof-go/nvmeof/capsule"
)

// Served describes a namespace as hosts see it.
type Served struct {
	UUID      uuid.UUID
	NGUID     [16]byte
	Size      int64 // bytes
	BlockSize int
	// ReadOnly means that no host may write: because of NamespaceConfig or SetReadOnly, or of a read-only store.
	ReadOnly      bool
	StoreReadOnly bool
	// Protection is what a host has set. [capsule.WriteProtected] lasts until a host ends it,
	// [capsule.WriteProtectedUntilOff] until the target ends, but not if it moves to another process.
	Protection capsule.WriteProtection
	Paused     bool // see Namespace.Pause
}

// Served describes the namespace as hosts see it. It returns false while nothing is known of its store. It does
// not wait for changes under way.
func (n *Namespace) Served() (Served, bool) {
	shape, known := n.ns.Shape()
	if !known {
		return Served{}, false
	}
	return Served{UUID: n.ns.UUID, NGUID: n.ns.NGUID, Size: int64(shape.Bytes()), BlockSize: 1 << shape.Shift,
		ReadOnly: n.ns.ReadOnly() || shape.Info.ReadOnly, StoreReadOnly: shape.Info.ReadOnly, Protection: n.ns.Protection(), Paused: n.ns.Paused()}, true
}
