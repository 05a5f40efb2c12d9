package rc

import (
	"os"
	"runtime/debug"
	"testing"
)

func TestMain(m *testing.M) {
	// The tests create many short-lived packets, whose collection takes a sixth of the processor time.
	debug.SetGCPercent(400)
	os.Exit(m.Run())
}
