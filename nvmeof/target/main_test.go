package target

import (
	"os"
	"runtime/debug"
	"testing"
)

func TestMain(m *testing.M) {
	// The tests create short-lived targets and hosts: collecting these would be a fifth of the CPU time.
	debug.SetGCPercent(400)
	os.Exit(m.Run())
}
