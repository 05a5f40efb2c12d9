package control

import (
	"strings"
	"testing"
)

// TestRequired: if a required field of Config is missing, New names it.
func TestRequired(t *testing.T) {
	defer func() {
		if got, _ := recover().(string); !strings.Contains(got, "Config.Target and Config.Settings are required") {
			t.Errorf("New panics with %q", got)
		}
	}()
	New(Config{})
}
