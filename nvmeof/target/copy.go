package target

import (
	"github.com/nvmeof-go/nvmeof/backend"
	"github.com/nvmeof-go/nvmeof/capsule"
)

// Limits of a Copy command: MSRC and, in bytes, MSSRL and MCL.
const (
	maxCopyRanges = 128
	maxCopyRange  = 4 << 20
	maxCopy       = 64 << 20
)

const sizeLimit = capsule.StatusCommandSizeLimit | capsule.StatusDNR

// startCopy begins a Copy command, whose source ranges are in the same namespace (NVM command set 1.0, 3.2.2).
// Ranges are copied in order, a part at a time, so if source and destination overlap, the source of a later part
// may have been overwritten.
func startCopy(_ *queue, r *request) {
	f := r.cmd.Copy()
	l := r.enter(r.cmd.NSID)
	switch {
	case l == nil || !r.writable(l):
	case f.Format != 0 || f.PRINFOR|f.PRINFOW|f.DTYPE != 0 || f.STCR || f.STCW:
		r.finish(invalidField)
	case f.Ranges > maxCopyRanges:
		r.finish(sizeLimit)
	case r.link.Length() < f.Ranges*capsule.CopyRangeSize:
		r.finish(capsule.StatusSGLDataLength | capsule.StatusDNR)
	case r.link.InCapsule() != nil:
		r.data = r.link.InCapsule()
		runCopy(r)
	default:
		r.wantBuffer()
	}
}

// runCopy checks every range before it copies any.
func runCopy(r *request) {
	f, ns := r.cmd.Copy(), r.op.Lane.Volume
	total := uint32(0)
	for i := range f.Ranges {
		s := r.copyRange(i)
		total += s.Blocks // cannot overflow: at most 128 times 65536
		switch {
		case int64(s.Blocks)<<ns.Shift > maxCopyRange, int64(total)<<ns.Shift > maxCopy:
			r.finish(sizeLimit)
			return
		case !ns.InRange(s.SLBA, s.Blocks):
			r.finish(capsule.StatusLBAOutOfRange | capsule.StatusDNR)
			return
		}
	}
	if !ns.InRange(f.SDLBA, total) {
		r.finish(capsule.StatusLBAOutOfRange | capsule.StatusDNR)
		return
	}
	x := r.wantExtra()
	x.at, x.to = 0, int64(f.SDLBA)<<ns.Shift
	r.copyFrom(x)
}

func (r *request) copyRange(i int) capsule.CopyRange {
	// Cannot fail: startCopy has checked the length of the data.
	s, _ := capsule.DecodeCopyRange(r.data[i*capsule.CopyRangeSize:])
	return s
}

// copyFrom begins to copy a range. If that fails, the result is the range's number (NVM command set 1.0, 3.2.2.1).
func (r *request) copyFrom(x *extra) {
	s, ns := r.copyRange(x.at), r.op.Lane.Volume
	r.result = uint64(x.at)
	r.op.Offset, r.op.Length = int64(s.SLBA)<<ns.Shift, int64(s.Blocks)<<ns.Shift
	if !ns.Info.Copy {
		r.readThrough(span{r.op.Offset, r.op.Length})
		return
	}
	x.rest = span{}
	r.op.Op, r.op.From, r.op.Offset, r.op.FUA = backend.OpCopy, r.op.Offset, x.to, r.durable(r.cmd.Copy().FUA)
	r.submit()
}

// copyByHand copies a range by reads and writes if the store cannot copy it itself.
func (r *request) copyByHand() { r.readThrough(span{r.op.From, r.op.Length}) }

// copyDone continues after each read and write of a part, and after the final flush if there is one.
func copyDone(r *request) {
	f, x := r.cmd.Copy(), r.extra
	switch r.op.Op {
	case backend.OpRead:
		r.op.Op, r.op.Offset, r.op.FUA = backend.OpWrite, x.to, r.durable(f.FUA)
		r.submit()
		return
	case backend.OpFlush:
		r.finish(capsule.StatusSuccess)
		return
	}
	x.to += r.op.Length
	switch {
	case x.rest.length > 0:
		r.readNext()
	case x.at+1 < f.Ranges:
		x.at++
		r.copyFrom(x)
	default:
		total := x.to - int64(f.SDLBA)<<r.op.Lane.Volume.Shift
		r.op.Gate.Count(backend.OpRead, total)
		r.op.Gate.Count(backend.OpWrite, total)
		r.result = 0
		if r.settled() {
			r.finish(capsule.StatusSuccess)
		}
	}
}
