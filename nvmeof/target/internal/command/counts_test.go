package command

import (
	"testing"

	"github.com/nvmeof-go/nvmeof/capsule"
)

// TestQueueCounts: bytes count where the command succeeded.
func TestQueueCounts(t *testing.T) {
	var c Counts
	r := &Request{Cmd: &capsule.Command{Opcode: capsule.Opcode(capsule.IOWrite)}, Data: make([]byte, 4096)}
	c.answered(r, capsule.StatusSuccess)
	c.answered(r, capsule.StatusInvalidField)
	c.sent(512)
	if want := (Counts{Answers: 3, WriteBytes: 4096, ReadBytes: 512}); c != want {
		t.Errorf("%+v, want %+v", c, want)
	}
}
