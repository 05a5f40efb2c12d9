package host

import (
	"os"
	"runtime/debug"
	"testing"
)

func TestMain(m *testing.M) {
	// The tests create short-lived targets and hosts: garbage collection takes a fifth of their CPU time.
	debug.SetGCPercent(400)
	os.Exit(m.Run())
}
