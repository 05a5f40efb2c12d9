package command

import (
	"github.com/nvmeof-go/nvmeof/backend"
	"github.com/nvmeof-go/nvmeof/capsule"
)

// Limits of one Copy command: MSRC and, in bytes, MSSRL and MCL.
const (
	MaxCopyRanges = 128
	MaxCopyRange  = 4 << 20
	MaxCopy       = 64 << 20
)

const SizeLimit = capsule.StatusCommandSizeLimit | capsule.StatusDNR

// startCopy takes a Copy command, whose source ranges are of the same namespace
// (NVM command set 1.0, 3.2.2). Ranges are copied in order, a part at a time, so
// that what a source shares with the destination is copied as it is then.
func startCopy(_ *Queue, r *Request) {
	f := r.Cmd.Copy()
	l := r.enter(r.Cmd.NSID)
	switch {
	case l == nil || !r.writable(l):
	case f.Format != 0 || f.PRINFOR|f.PRINFOW|f.DTYPE != 0 || f.STCR || f.STCW:
		r.Finish(invalidField)
	case f.Ranges > MaxCopyRanges:
		r.Finish(SizeLimit)
	case r.Link.Length() < f.Ranges*capsule.CopyRangeSize:
		r.Finish(capsule.StatusSGLDataLength | capsule.StatusDNR)
	case r.Link.InCapsule() != nil:
		r.Data = r.Link.InCapsule()
		runCopy(r)
	default:
		r.wantBuffer()
	}
}

// runCopy judges every range before it copies any.
func runCopy(r *Request) {
	f, ns := r.Cmd.Copy(), r.Lane.Volume
	total := uint32(0)
	for i := range f.Ranges {
		s := r.copyRange(i)
		total += s.Blocks // at most 128 times 65536
		switch {
		case int64(s.Blocks)<<ns.Shift > MaxCopyRange, int64(total)<<ns.Shift > MaxCopy:
			r.Finish(SizeLimit)
			return
		case !ns.InRange(s.SLBA, s.Blocks):
			r.Finish(capsule.StatusLBAOutOfRange | capsule.StatusDNR)
			return
		}
	}
	if !ns.InRange(f.SDLBA, total) {
		r.Finish(capsule.StatusLBAOutOfRange | capsule.StatusDNR)
		return
	}
	x := r.wantExtra()
	x.at, x.to = 0, int64(f.SDLBA)<<ns.Shift
	r.copyFrom(x)
}

func (r *Request) copyRange(i int) capsule.CopyRange {
	// As many ranges as startCopy counted bytes for.
	s, _ := capsule.DecodeCopyRange(r.Data[i*capsule.CopyRangeSize:])
	return s
}

// copyFrom begins with a range. Its number is the result if it fails (NVM command
// set 1.0, 3.2.2.1).
func (r *Request) copyFrom(x *extra) {
	s, ns := r.copyRange(x.at), r.Lane.Volume
	r.Result = uint64(x.at)
	r.Offset, r.Length = int64(s.SLBA)<<ns.Shift, int64(s.Blocks)<<ns.Shift
	if !ns.Info.Copy {
		r.readThrough(span{r.Offset, r.Length})
		return
	}
	x.rest = span{}
	r.Op, r.From, r.Offset, r.FUA = backend.OpCopy, r.Offset, x.to, r.durable(r.Cmd.Copy().FUA)
	r.submit()
}

// copyByHand takes a range over that the store does not copy itself.
func (r *Request) copyByHand() { r.readThrough(span{r.From, r.Length}) }

// copyDone follows each read and each write of a part.
func copyDone(r *Request) {
	f, x := r.Cmd.Copy(), r.extra
	if r.Op == backend.OpRead {
		r.Op, r.Offset, r.FUA = backend.OpWrite, x.to, r.durable(f.FUA)
		r.submit()
		return
	}
	x.to += r.Length
	switch {
	case x.rest.length > 0:
		r.readNext()
	case x.at+1 < f.Ranges:
		x.at++
		r.copyFrom(x)
	default:
		total := x.to - int64(f.SDLBA)<<r.Lane.Volume.Shift
		r.Gate.Count(backend.OpRead, total)
		r.Gate.Count(backend.OpWrite, total)
		r.Result = 0
		r.Finish(capsule.StatusSuccess)
	}
}
