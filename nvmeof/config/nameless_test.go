package config

import (
	"strings"
	"testing"
)

// TestNamelessSubsystem: if a program forgets the name of a subsystem, the error says that, and not that it is the
// name of the discovery subsystem.
func TestNamelessSubsystem(t *testing.T) {
	doc := &Document{Version: Version, Subsystems: []*Subsystem{{}}}
	if _, err := doc.Check(); err == nil || !strings.Contains(err.Error(), "subsystems[0].nqn: the subsystem has no name") || strings.Contains(err.Error(), "discovery") {
		t.Errorf("%v", err)
	}
}
