package target

import (
	"os"
	"runtime/debug"
	"testing"
)

func TestMain(m *testing.M) {
	// The tests make targets and hosts that live for a moment: collecting these is a fifth of
	// what they compute.
	debug.SetGCPercent(400)
	os.Exit(m.Run())
}
