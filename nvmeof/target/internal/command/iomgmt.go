package command

import (
	"github.com/nvmeof-go/nvmeof/nvmeof/target/internal/storage"
	"unsafe"

	"github.com/nvmeof-go/nvmeof/backend"
	"github.com/nvmeof-go/nvmeof/capsule"
)

// startFlush flushes one namespace, or all of them one after the other (VWC
// bits 2:1 are 11b).
func startFlush(_ *Queue, r *Request) {
	if r.Link.Length() != 0 {
		r.Finish(capsule.StatusSGLDataLength | capsule.StatusDNR)
		return
	}
	id := r.Cmd.NSID
	if id == capsule.NSIDBroadcast {
		r.flushNext()
		return
	}
	if l := r.enter(id); l != nil {
		r.flush(l)
	}
}

func (r *Request) flush(l *storage.Lane) {
	r.Op, r.Offset, r.Length = backend.OpFlush, 0, 0
	if !l.Volume.Info.Volatile {
		r.flushNext()
		return
	}
	r.submit()
}

// flushNext goes on after one namespace. The table may change on the way: what
// is gone needs no flush.
func (r *Request) flushNext() {
	if r.Cmd.NSID != capsule.NSIDBroadcast {
		r.Finish(capsule.StatusSuccess)
		return
	}
	after := capsule.NSID(0)
	if r.Lane != nil {
		after = r.Gate.Namespace.ID
		r.Operation.Release()
	}
	v := r.Queue.View
	for id := after + 1; id <= v.Last(); id++ {
		ns, status := v.Reach(id)
		switch {
		case ns == nil && status.SCT() == 3:
			r.Finish(status) // not all namespaces can be flushed from here
			return
		case ns != nil && v.Replaced(ns) && !v.Seen(ns):
			r.Finish(StatusUnseen) // what the host means is not there any more
			return
		case ns != nil && ns.Volume.Info.Volatile:
			if l := r.through(ns); l != nil { // else held: it starts with the first again
				r.flush(l)
			}
			return
		}
	}
	r.Finish(capsule.StatusSuccess)
}

func startWriteZeroes(_ *Queue, r *Request) {
	f := r.Cmd.ReadWrite()
	if r.Link.Length() != 0 {
		r.Finish(capsule.StatusSGLDataLength | capsule.StatusDNR)
		return
	}
	l := r.enter(r.Cmd.NSID)
	if l == nil || !r.writable(l) || !r.blocks(l, f) {
		return
	}
	r.Op, r.FUA, r.Deallocate = backend.OpWriteZeroes, r.durable(f.FUA), f.DEAC
	r.submit()
}

func writeZeroesDone(r *Request) { r.Finish(capsule.StatusSuccess) }

// startDSM takes the ranges of a Dataset Management command. Hosts send more
// bytes than the ranges need, so the data may be longer (Linux: 4096 always).
func startDSM(_ *Queue, r *Request) {
	f := r.Cmd.DatasetManagement()
	l := r.enter(r.Cmd.NSID)
	switch {
	case l == nil:
	case r.Link.Length() < f.Ranges*capsule.DSMRangeSize:
		r.Finish(capsule.StatusSGLDataLength | capsule.StatusDNR)
	case !f.Deallocate: // hints that we have no use for
		r.Finish(capsule.StatusSuccess)
	case !r.writable(l):
	case r.Link.InCapsule() != nil:
		r.Data = r.Link.InCapsule()
		runDSM(r)
	default:
		r.wantBuffer()
	}
}

// runDSM judges every range before it touches any.
func runDSM(r *Request) {
	ns := r.Lane.Volume
	for i := range r.Cmd.DatasetManagement().Ranges {
		if d := r.dsmRange(i); !ns.InRange(d.SLBA, d.Blocks) {
			r.Finish(capsule.StatusLBAOutOfRange | capsule.StatusDNR)
			return
		}
	}
	r.Op = backend.OpDeallocate
	r.wantExtra().at = 0
	r.deallocateNext()
}

func (r *Request) dsmRange(i int) capsule.DSMRange {
	// As many ranges as startDSM counted bytes for.
	d, _ := capsule.DecodeDSMRange(r.Data[i*capsule.DSMRangeSize:])
	return d
}

// deallocateNext frees the next range that is not empty. It is advice, so a
// store that cannot free has nothing to do.
func (r *Request) deallocateNext() {
	ns, x := r.Lane.Volume, r.extra
	for ns.Info.Deallocate && x.at < r.Cmd.DatasetManagement().Ranges {
		d := r.dsmRange(x.at)
		x.at++
		if d.Blocks != 0 {
			r.Offset, r.Length = int64(d.SLBA)<<ns.Shift, int64(d.Blocks)<<ns.Shift
			r.submit()
			return
		}
	}
	r.Finish(capsule.StatusSuccess)
}

// Aligned reports whether b starts at a multiple of n, a power of two.
func Aligned(b []byte, n int) bool {
	return n <= 1 || uintptr(unsafe.Pointer(unsafe.SliceData(b)))&uintptr(n-1) == 0
}
