package target

import (
	"testing"

	"github.com/google/uuid"

	"github.com/nvmeof-go/nvmeof/capsule"
	"github.com/nvmeof-go/nvmeof/nvmeof/config"
)

// TestQueueCounts: bytes count where the command succeeded.
func TestQueueCounts(t *testing.T) {
	var c queueCounts
	r := &request{cmd: &capsule.Command{Opcode: capsule.Opcode(capsule.IOWrite)}, data: make([]byte, 4096)}
	c.answered(r, capsule.StatusSuccess)
	c.answered(r, capsule.StatusInvalidField)
	c.sent(512)
	if want := (queueCounts{answers: 3, writeBytes: 4096, readBytes: 512}); c != want {
		t.Errorf("%+v, want %+v", c, want)
	}
}

// TestDefaultIdentity: a configuration names what the target would choose, so that
// nothing changes for hosts whichever of the two serves them.
func TestDefaultIdentity(t *testing.T) {
	f := newFixture(t)
	if want := config.DefaultSerial(testSubNQN); f.sub.serial != want {
		t.Errorf("serial number %s, the configuration says %s", f.sub.serial, want)
	}
	n := newNamespace(f.sub, NamespaceConfig{NSID: 7, Name: "/srv/disk.img"})
	if want := uuid.UUID(config.DefaultUUID(testSubNQN, 7, "/srv/disk.img")); n.UUID() != want {
		t.Errorf("UUID %v, the configuration says %v", n.UUID(), want)
	}
}
