package badinput

import (
	"os"
	"runtime/debug"
	"testing"
)

func TestMain(m *testing.M) {
	// The tests create many short-lived targets and hosts, whose collection takes a fifth of the processor time.
	debug.SetGCPercent(400)
	os.Exit(m.Run())
}
