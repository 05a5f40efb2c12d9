package control

import (
	"os"
	"runtime/debug"
	"testing"

	"github.com/nvmeof-go/nvmeof/internal/testparallel"
)

func TestMain(m *testing.M) {
	// The tests create many short-lived managers and targets. Collecting these takes a fifth of their CPU time.
	debug.SetGCPercent(400)
	testparallel.Set(16)
	os.Exit(m.Run())
}
