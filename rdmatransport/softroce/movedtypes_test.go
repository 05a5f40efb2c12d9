package softroce

import (
	"testing"

	"github.com/nvmeof-go/nvmeof/internal/shape"
)

// TestMovedTypes fails when the types of the states change. Then raise movedVersion and record the new types here.
func TestMovedTypes(t *testing.T) {
	const version, types = 2, "283cf25ad60f8453"
	if now := shape.Of(struct {
		Device movedDevice
		Pair   movedQueuePair
	}{}).String(); now != types || movedVersion != version {
		t.Errorf("the states of version %d have the types %s, and of version %d they had %s: raise movedVersion, and then write both here", movedVersion, now, version, types)
	}
}
