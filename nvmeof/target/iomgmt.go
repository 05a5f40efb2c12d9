package target

import (
	"unsafe"

	"github.com/nvmeof-go/nvmeof/nvmeof/target/internal/storage"

	"github.com/nvmeof-go/nvmeof/backend"
	"github.com/nvmeof-go/nvmeof/capsule"
)

// startFlush flushes one namespace, or all of them one after the other (VWC bits 2:1 are 11b).
func startFlush(_ *queue, r *request) {
	if r.link.Length() != 0 {
		r.finish(capsule.StatusSGLDataLength | capsule.StatusDNR)
		return
	}
	id := r.cmd.NSID
	if id == capsule.NSIDBroadcast {
		r.chargeAll(lookCost)
		r.flushNext()
		return
	}
	if l := r.enter(id); l != nil {
		r.flush(l)
	}
}

func (r *request) flush(l *storage.Lane) {
	r.op.Op, r.op.Offset, r.op.Length = backend.OpFlush, 0, 0
	if !l.Volume.Info.Volatile {
		r.flushNext()
		return
	}
	r.submit()
}

// flushNext continues after one namespace. The view may have changed meanwhile: a namespace that was removed needs
// no flush.
func (r *request) flushNext() {
	if r.cmd.NSID != capsule.NSIDBroadcast {
		r.finish(capsule.StatusSuccess)
		return
	}
	after := capsule.NSID(0)
	if r.op.Lane != nil {
		after = r.op.Gate.Namespace.ID
		r.op.Release()
	}
	v := &r.queue.controller.view
	for id := after + 1; id <= v.Last(); id++ {
		ns, status := v.Reach(id)
		switch {
		case ns == nil && r.flushedElsewhere(v.Find(id)):
		case ns == nil && status.SCT() == 3:
			r.finish(status) // not all namespaces can be flushed through this controller
			return
		case ns != nil && v.Replaced(ns) && !v.Identified(ns):
			r.finish(statusUnidentified) // the namespace that the host intends has been replaced
			return
		case ns != nil && ns.Volume.Info.Volatile:
			if l := r.through(ns); l != nil { // otherwise held: the command restarts with the first namespace
				r.flush(l)
			}
			return
		}
	}
	r.finish(capsule.StatusSuccess)
}

// flushedElsewhere reports whether a flush of all namespaces can skip one that another target serves. A flush
// covers commands that this controller has completed (NVM command set 1.0, 3.2.1), whose data was flushed when the
// group was given back. If the group was lost instead, that may not be so.
func (r *request) flushedElsewhere(n *storage.Namespace) bool {
	return n != nil && n.Elsewhere() && !r.queue.target.cfg.Gateway.lost(n.Group())
}

func startWriteZeroes(_ *queue, r *request) {
	f := r.cmd.ReadWrite()
	if r.link.Length() != 0 {
		r.finish(capsule.StatusSGLDataLength | capsule.StatusDNR)
		return
	}
	l := r.enter(r.cmd.NSID)
	if l == nil || !r.writable(l) || !r.blocks(l, f) {
		return
	}
	r.op.Op, r.op.FUA, r.op.Deallocate = backend.OpWriteZeroes, r.durable(f.FUA), f.DEAC
	r.submit()
}

func writeZeroesDone(r *request) {
	if r.settled() {
		r.finish(capsule.StatusSuccess)
	}
}

// startDSM starts Dataset Management. The data may be longer than the ranges: Linux always sends 4096 bytes.
func startDSM(_ *queue, r *request) {
	f := r.cmd.DatasetManagement()
	l := r.enter(r.cmd.NSID)
	switch {
	case l == nil:
	case r.link.Length() < f.Ranges*capsule.DSMRangeSize:
		r.finish(capsule.StatusSGLDataLength | capsule.StatusDNR)
	case !f.Deallocate: // only hints, which are ignored
		r.finish(capsule.StatusSuccess)
	case !r.writable(l):
	case r.link.InCapsule() != nil:
		r.data = r.link.InCapsule()
		runDSM(r)
	default:
		r.wantBuffer()
	}
}

// runDSM checks every range before it deallocates any.
func runDSM(r *request) {
	ns := r.op.Lane.Volume
	for i := range r.cmd.DatasetManagement().Ranges {
		if d := r.dsmRange(i); !ns.InRange(d.SLBA, d.Blocks) {
			r.finish(capsule.StatusLBAOutOfRange | capsule.StatusDNR)
			return
		}
	}
	r.op.Op = backend.OpDeallocate
	r.wantExtra().at = 0
	r.deallocateNext()
}

func (r *request) dsmRange(i int) capsule.DSMRange {
	// Cannot fail: startDSM has checked the length of the data.
	d, _ := capsule.DecodeDSMRange(r.data[i*capsule.DSMRangeSize:])
	return d
}

// deallocateNext deallocates the next nonempty range, merged with following ranges that overlap or adjoin it: a
// host can send 256 small ranges with a command, and each costs a request of the store. Deallocation is advice, so
// it is skipped if the store does not support it.
func (r *request) deallocateNext() {
	ns, x := r.op.Lane.Volume, r.extra
	for n := r.cmd.DatasetManagement().Ranges; ns.Info.Deallocate && x.at < n; {
		first, end := r.dsmRange(x.at).Extent()
		for x.at++; x.at < n; x.at++ {
			from, to := r.dsmRange(x.at).Extent()
			if from == to {
				continue
			}
			if from > end || to < first {
				break
			}
			first, end = min(first, from), max(end, to)
		}
		if end > first {
			r.op.Offset, r.op.Length = int64(first)<<ns.Shift, int64(end-first)<<ns.Shift
			r.submit()
			return
		}
	}
	r.finish(capsule.StatusSuccess)
}

// aligned reports whether b starts at a multiple of n, a power of two.
func aligned(b []byte, n int) bool {
	return n <= 1 || uintptr(unsafe.Pointer(unsafe.SliceData(b)))&uintptr(n-1) == 0
}
