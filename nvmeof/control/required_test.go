package control

import (
	"strings"
	"testing"
)

// TestRequired: who leaves out what a Manager cannot do without reads which that is.
func TestRequired(t *testing.T) {
	defer func() {
		if got, _ := recover().(string); !strings.Contains(got, "Config.Target and Config.Settings are required") {
			t.Errorf("New panics with %q", got)
		}
	}()
	New(Config{})
}
