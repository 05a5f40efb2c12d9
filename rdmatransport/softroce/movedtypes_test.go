package softroce

import (
	"testing"

	"github.com/nvmeof-go/nvmeof/internal/shape"
)

// TestMovedTypes: who changes the types of states raises movedVersion, and writes down what they are now.
func TestMovedTypes(t *testing.T) {
	const version, types = 2, "283cf25ad60f8453"
	if now := shape.Of(struct {
		Device movedDevice
		Pair   movedQueuePair
	}{}).String(); now != types || movedVersion != version {
		t.Errorf("the states of version %d have the types %s, and of version %d they had %s: raise movedVersion, and then write both here", movedVersion, now, version, types)
	}
}
