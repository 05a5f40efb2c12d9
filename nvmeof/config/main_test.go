package config

import (
	"os"
	"runtime/debug"
	"testing"
)

// TestMain reduces garbage collection, which takes a fourth of the tests' CPU time because of large short-lived
// trees.
func TestMain(m *testing.M) {
	debug.SetGCPercent(400)
	os.Exit(m.Run())
}
