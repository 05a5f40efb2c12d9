package target

import (
	"github.com/google/uuid"

	"github.com/nvmeof-go/nvmeof/capsule"
)

// Served is a namespace as hosts find it.
type Served struct {
	UUID      uuid.UUID
	NGUID     [16]byte
	Size      int64 // bytes
	BlockSize int
	// ReadOnly says that no host may write: by NamespaceConfig or SetReadOnly, or since the store is read-only.
	ReadOnly      bool
	StoreReadOnly bool
	// Protection is what a host has set. [capsule.WriteProtected] ends when a host ends it,
	// [capsule.WriteProtectedUntilOff] with the target, but not with a move to another process.
	Protection capsule.WriteProtection
	Paused     bool // see Namespace.Pause
}

// Served is how hosts find the namespace. It reports false while nothing is known of its store.
// It waits for no change that is being made.
func (n *Namespace) Served() (Served, bool) {
	shape, known := n.ns.Shape()
	if !known {
		return Served{}, false
	}
	return Served{UUID: n.ns.UUID, NGUID: n.ns.NGUID, Size: int64(shape.Bytes()), BlockSize: 1 << shape.Shift,
		ReadOnly: n.ns.ReadOnly() || shape.Info.ReadOnly, StoreReadOnly: shape.Info.ReadOnly, Protection: n.ns.Protection(), Paused: n.ns.Paused()}, true
}
