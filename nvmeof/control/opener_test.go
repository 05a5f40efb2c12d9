package control

import (
	"testing"

	"github.com/nvmeof-go/nvmeof/nvmeof/config"
)

// TestOpenerLimitsThreads: all files and devices of a process share what threads it may have.
func TestOpenerLimitsThreads(t *testing.T) {
	t.Parallel()
	o := NewOpener()
	if a, b := o.options("threads").Workers, o.options(config.Engine("")).Workers; a == nil || a != b {
		t.Errorf("workers %p and %p", a, b)
	}
}
