package target

import (
	"testing"

	"github.com/nvmeof-go/nvmeof/capsule"
)

// TestParameterErrorLocation: the error log has the field because of which a command failed.
func TestParameterErrorLocation(t *testing.T) {
	f := newFixture(t)
	h, io := f.both()
	rw := func(c capsule.ReadWrite) *hostCommand {
		return ioCommand(capsule.IORead, 1, c, make([]byte, 512))
	}
	nowhere := rw(capsule.ReadWrite{Blocks: 1})
	nowhere.sqe.NSID = 77
	malformed := rw(capsule.ReadWrite{Blocks: 1})
	malformed.wrong = capsule.StatusSGLTypeInvalid | dnr
	for _, c := range []struct {
		q           *hostQueue
		cmd         *hostCommand
		dword, bit  int
		description string
	}{
		{io, nowhere, 1, 0, "NSID"},
		{io, malformed, 9, 28, "SGL type"},
		{io, rw(capsule.ReadWrite{Blocks: 2}), 8, 0, "SGL length"},
		{io, rw(capsule.ReadWrite{Blocks: 1, DTYPE: 1}), 12, 20, "DTYPE"},
		{io, rw(capsule.ReadWrite{Blocks: 4096}), 12, 0, "NLB"},
		{h, adminCommand(0x7e, nil, nil), 0, 0, "opcode"},
		{h, adminCommand(capsule.AdminIdentify, capsule.Identify{CNS: 0xee}, make([]byte, 4096)), 10, 0, "CNS"},
		{h, adminCommand(capsule.AdminSetFeatures, capsule.SetFeatures{FID: capsule.FeatureAsyncEvent, Value: 1 << 14}, nil), 11, 14, "event"},
		{h, adminCommand(capsule.AdminGetLogPage, capsule.GetLogPage{LID: capsule.LogError, Length: 16, LPO: 2}, make([]byte, 16)), 12, 0, "LPO"},
	} {
		if r := c.q.do(c.cmd); r.status.OK() {
			t.Errorf("%s: success", c.description)
		}
		e, err := capsule.DecodeErrorLogEntry(logInto(h, capsule.LogError, capsule.ErrorLogEntrySize, 0))
		if err != nil || e.Parameter != capsule.ParameterAt(c.dword, c.bit) {
			t.Errorf("%s: the error is in %#x, want dword %d, bit %d", c.description, e.Parameter, c.dword, c.bit)
		}
	}
}

// TestMalformedCommandsCount: a capsule with an invalid descriptor counts as a command, and as a sign of life.
func TestMalformedCommandsCount(t *testing.T) {
	f := newFixture(t)
	_, io := f.both()
	io.q.traffic.Store(false)
	before := io.q.counts.commands
	bad := readOf(1)
	bad.wrong = capsule.StatusSGLOffset | dnr
	io.wantStatus(capsule.StatusSGLOffset|dnr, bad)
	if !io.q.traffic.Load() || io.q.counts.commands != before+1 {
		t.Errorf("%d commands counted, want 1", io.q.counts.commands-before)
	}
}
