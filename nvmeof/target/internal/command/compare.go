package command

import (
	"bytes"

	"github.com/nvmeof-go/nvmeof/backend"
	"github.com/nvmeof-go/nvmeof/capsule"
)

// startCompare compares the host's data with the blocks, each of which is seen
// whole (NVM command set 1.0, 3.2.1).
func startCompare(_ *Queue, r *Request) {
	l := r.enter(r.Cmd.NSID)
	if l == nil || !r.blocks(l, r.Cmd.ReadWrite()) || !r.sized() {
		return
	}
	r.Op = backend.OpRead
	if in := r.Link.InCapsule(); in != nil {
		r.Data = in
		runCompare(r)
		return
	}
	r.wantBuffer()
}

// runCompare has the data whole.
func runCompare(r *Request) {
	l := r.Lane
	switch {
	case l.Viewer == nil:
		r.readThrough(span{r.Offset, r.Length})
	case l.Lease(&r.Operation, false):
		r.Leasable()
	default:
		r.stage = stageLease
	}
}

func compareLeased(r *Request, view []byte) {
	r.compared(bytes.Equal(view, r.Data))
}

// compareDone compares a part.
func compareDone(r *Request) {
	left := int(r.extra.rest.length)
	at := len(r.Data) - left - len(r.Buf)
	switch same := bytes.Equal(r.Buf, r.Data[at:at+len(r.Buf)]); {
	case same && left > 0:
		r.readNext()
	default:
		r.compared(same)
	}
}

func (r *Request) compared(same bool) {
	r.Gate.Count(backend.OpRead, int64(len(r.Data)))
	if !same {
		r.Finish(capsule.StatusCompareFailure)
		return
	}
	r.Finish(capsule.StatusSuccess)
}

// startVerify reads the blocks for their errors alone (NVM command set 1.0, 3.2.6).
// What is in memory has none. VSL is 0: there is no limit, and no more than a part
// is under way at a time.
func startVerify(_ *Queue, r *Request) {
	if r.Link.Length() != 0 {
		r.Finish(capsule.StatusSGLDataLength | capsule.StatusDNR)
		return
	}
	l := r.enter(r.Cmd.NSID)
	switch {
	case l == nil || !r.blocks(l, r.Cmd.ReadWrite()):
	case l.Viewer != nil:
		r.verified()
	default:
		r.readThrough(span{r.Offset, r.Length})
	}
}

func (r *Request) verified() {
	r.Gate.Count(backend.OpRead, int64(r.Cmd.ReadWrite().Blocks)<<r.Lane.Volume.Shift)
	r.Finish(capsule.StatusSuccess)
}

func verifyDone(r *Request) {
	if r.extra.rest.length > 0 {
		r.readNext()
		return
	}
	r.verified()
}
