package config

import (
	"strings"
	"testing"
)

// TestNamelessSubsystem: a program that makes a document and forgets a subsystem's name learns that, and not
// that the name is that of the discovery subsystem.
func TestNamelessSubsystem(t *testing.T) {
	doc := &Document{Version: Version, Subsystems: []*Subsystem{{}}}
	if _, err := doc.Check(); err == nil || !strings.Contains(err.Error(), "subsystems[0].nqn: the subsystem has no name") || strings.Contains(err.Error(), "discovery") {
		t.Errorf("%v", err)
	}
}
