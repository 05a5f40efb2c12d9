package multipath

import (
	"os"
	"runtime/debug"
	"testing"
)

func TestMain(m *testing.M) {
	// The tests create short-lived targets and hosts: garbage collection takes a sixth of their CPU time.
	debug.SetGCPercent(400)
	os.Exit(m.Run())
}
