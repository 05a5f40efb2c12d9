package target

import (
	"testing"

	"github.com/nvmeof-go/nvmeof/capsule"
)

// TestQueueCounts: bytes are counted if the command succeeded.
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
