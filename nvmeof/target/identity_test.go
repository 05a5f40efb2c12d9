package target

import (
	"testing"

	"github.com/google/uuid"

	"github.com/nvmeof-go/nvmeof/nvmeof/config"
)

// TestDefaultIdentity: a configuration can set the identifiers that are the target's defaults, so that nothing
// changes for hosts.
func TestDefaultIdentity(t *testing.T) {
	f := newFixture(t)
	if want := config.DefaultSerial(testSubNQN); f.sub.traits.Load().serial != want {
		t.Errorf("serial number %s, the configuration says %s", f.sub.traits.Load().serial, want)
	}
	n := makeNamespace(f.sub, NamespaceConfig{NSID: 7, Name: "/srv/disk.img"})
	if want := uuid.UUID(config.DefaultUUID(testSubNQN, 7, "/srv/disk.img", nil)); n.UUID() != want {
		t.Errorf("UUID %v, the configuration says %v", n.UUID(), want)
	}
}
