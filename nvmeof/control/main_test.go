package control

import (
	"os"
	"runtime/debug"
	"testing"

	"github.com/nvmeof-go/nvmeof/internal/testparallel"
)

func TestMain(m *testing.M) {
	// The tests make managers and targets that live for a moment: collecting these is a fifth
	// of what they compute.
	debug.SetGCPercent(400)
	testparallel.Set(16)
	os.Exit(m.Run())
}
