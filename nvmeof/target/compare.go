package target

import (
	"bytes"

	"github.com/nvmeof-go/nvmeof/backend"
	"github.com/nvmeof-go/nvmeof/capsule"
)

// startCompare compares the host's data with the blocks, all of which are read (NVM command set 1.0, 3.2.1).
func startCompare(_ *queue, r *request) {
	l := r.enter(r.cmd.NSID)
	if l == nil || !r.blocks(l, r.cmd.ReadWrite()) || !r.sized() {
		return
	}
	r.op.Op = backend.OpRead
	if in := r.link.InCapsule(); in != nil {
		r.data = in
		runCompare(r)
		return
	}
	r.wantBuffer()
}

// runCompare continues when all data has been received.
func runCompare(r *request) {
	l := r.op.Lane
	switch {
	case l.Leaser == nil:
		r.readThrough(span{r.op.Offset, r.op.Length})
	case l.Lease(&r.op, false):
		r.Leasable()
	default:
		r.stage = stageLease
	}
}

func compareLeased(r *request, memory []byte) {
	r.compared(bytes.Equal(memory, r.data))
}

// compareDone compares a part.
func compareDone(r *request) {
	left := int(r.extra.rest.length)
	at := len(r.data) - left - len(r.op.Buf)
	switch same := bytes.Equal(r.op.Buf, r.data[at:at+len(r.op.Buf)]); {
	case same && left > 0:
		r.readNext()
	default:
		r.compared(same)
	}
}

func (r *request) compared(same bool) {
	r.op.Gate.Count(backend.OpRead, int64(len(r.data)))
	if !same {
		r.finish(capsule.StatusCompareFailure)
		return
	}
	r.finish(capsule.StatusSuccess)
}

// startVerify reads the blocks only to detect errors (NVM command set 1.0, 3.2.6); memory has none. VSL is 0,
// which means no limit, since one part is read at a time.
func startVerify(_ *queue, r *request) {
	if r.link.Length() != 0 {
		r.finish(capsule.StatusSGLDataLength | capsule.StatusDNR)
		return
	}
	l := r.enter(r.cmd.NSID)
	switch {
	case l == nil || !r.blocks(l, r.cmd.ReadWrite()):
	case l.Leaser != nil:
		r.verified()
	default:
		r.readThrough(span{r.op.Offset, r.op.Length})
	}
}

func (r *request) verified() {
	r.op.Gate.Count(backend.OpRead, int64(r.cmd.ReadWrite().Blocks)<<r.op.Lane.Volume.Shift)
	r.finish(capsule.StatusSuccess)
}

func verifyDone(r *request) {
	if r.extra.rest.length > 0 {
		r.readNext()
		return
	}
	r.verified()
}
