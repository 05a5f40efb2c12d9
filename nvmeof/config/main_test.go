package config

import (
	"os"
	"runtime/debug"
	"testing"
)

// TestMain has the trees of large documents, which live for a moment, collected less often: that is a fourth of what the
// tests compute.
func TestMain(m *testing.M) {
	debug.SetGCPercent(400)
	os.Exit(m.Run())
}
