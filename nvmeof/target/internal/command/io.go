package command

import (
	"github.com/nvmeof-go/nvmeof/backend"
	"github.com/nvmeof-go/nvmeof/capsule"
	"github.com/nvmeof-go/nvmeof/nvmeof/target/internal/reservation"
	"github.com/nvmeof-go/nvmeof/nvmeof/target/internal/storage"
)

// An Row is one opcode of the NVM command set. start judges the command and
// sets it going; run goes on when its data is here, or the memory for it.
type Row struct {
	Start   func(q *Queue, r *Request)
	run     func(r *Request)
	leased  func(r *Request, view []byte) // the lease is held; view is the blocks
	done    func(r *Request)              // the store has carried the operation out
	step    func(r *Request)              // begins the next operation of several
	access  reservation.Access            // what a reservation is about
	Effects capsule.Effects
}

func ioTable() [256]Row {
	const changes = capsule.EffectBlockContentChange
	return [256]Row{
		capsule.IOFlush:             {Start: startFlush, done: (*Request).flushNext, step: (*Request).flushNext, access: reservation.Write},
		capsule.IOWrite:             {Start: startWrite, run: runWrite, leased: writeLeased, done: writeDone, access: reservation.Write, Effects: changes},
		capsule.IORead:              {Start: startRead, run: runRead, leased: readLeased, done: readDone, access: reservation.Read},
		capsule.IOCompare:           {Start: startCompare, run: runCompare, leased: compareLeased, done: compareDone, step: (*Request).readNext, access: reservation.Read},
		capsule.IOWriteZeroes:       {Start: startWriteZeroes, done: writeZeroesDone, access: reservation.Write, Effects: changes},
		capsule.IODatasetManagement: {Start: startDSM, run: runDSM, done: (*Request).deallocateNext, step: (*Request).deallocateNext, access: reservation.Write, Effects: changes},
		capsule.IOVerify:            {Start: startVerify, done: verifyDone, step: (*Request).readNext, access: reservation.Read},
		capsule.IOCopy:              {Start: startCopy, run: runCopy, done: copyDone, step: (*Request).readNext, access: reservation.Read | reservation.Write, Effects: changes},

		capsule.IOReservationRegister: {Start: startReservation, run: runReservation},
		capsule.IOReservationReport:   {Start: startReport, run: runReport},
		capsule.IOReservationAcquire:  {Start: startReservation, run: runReservation},
		capsule.IOReservationRelease:  {Start: startReservation, run: runReservation},
	}
}

// StartIO starts a command of an I/O queue.
func (q *Queue) StartIO(r *Request) {
	row := &q.Tables.IO[r.Cmd.Opcode]
	if row.Start == nil {
		r.Finish(capsule.StatusInvalidOpcode | capsule.StatusDNR)
		return
	}
	r.io = row
	row.Start(q, r)
}

// enter finds the command's namespace, which it keeps until it is finished. It
// returns nil if the command has been answered, or held back to be started anew.
func (r *Request) enter(id capsule.NSID) *storage.Lane {
	ns, status := r.Queue.View.Reach(id)
	if ns == nil {
		r.Finish(status)
		return nil
	}
	if !r.Queue.View.Knows(ns) {
		r.awaitSight(ns)
		return nil
	}
	return r.through(ns)
}

// through is enter for a namespace that was found.
func (r *Request) through(ns *storage.Namespace) *storage.Lane {
	switch ns.Enter(&r.Operation, r.Queue.At.Index, r.Queue.HostID, r.io.access) {
	case storage.Held:
		r.stage = stageGate
		return nil
	case storage.Conflict:
		r.Finish(capsule.StatusReservationConflict | capsule.StatusDNR)
		return nil
	default:
		return r.Lane
	}
}

// Admitted implements [storage.Owner]: the command begins anew.
func (r *Request) Admitted() { r.io.Start(r.Queue, r) }

// blocks judges the fields that Read, Write and Write Zeroes share, and sets the
// operation's range. It answers the command where it fails.
func (r *Request) blocks(l *storage.Lane, f capsule.ReadWrite) bool {
	switch {
	case f.PRINFO != 0: // no protection information
		r.Finish(r.Invalid(12, 26))
	case f.STC:
		r.Finish(r.Invalid(12, 24))
	case f.DTYPE != 0: // no directives
		r.Finish(r.Invalid(12, 20))
	case !l.Volume.InRange(f.SLBA, f.Blocks):
		r.Finish(capsule.StatusLBAOutOfRange | capsule.StatusDNR)
	default:
		r.Offset, r.Length = int64(f.SLBA)<<l.Volume.Shift, int64(f.Blocks)<<l.Volume.Shift
		return true
	}
	return false
}

// sized judges the length of the data against the blocks.
func (r *Request) sized() bool {
	switch {
	case r.Length > int64(r.Queue.MaxData):
		r.Finish(r.Invalid(12, 0)) // MDTS
	case int64(r.Link.Length()) != r.Length:
		r.Finish(capsule.StatusSGLDataLength | capsule.StatusDNR)
	default:
		return true
	}
	return false
}

// writable refuses changes of a namespace that is read-only, itself or for this
// host.
func (r *Request) writable(_ *storage.Lane) bool {
	if q := r.Queue; !q.View.MayWrite(r.Gate.Namespace) {
		q.Client.Refused(r.Gate.Namespace)
		r.Finish(capsule.StatusNamespaceWriteProtected | capsule.StatusDNR)
		return false
	}
	return true
}

func startRead(_ *Queue, r *Request) {
	f := r.Cmd.ReadWrite()
	l := r.enter(r.Cmd.NSID)
	if l == nil || !r.blocks(l, f) || !r.sized() {
		return
	}
	r.Op, r.FUA = backend.OpRead, f.FUA && l.Volume.Info.Volatile
	if l.Viewer == nil {
		r.wantBuffer()
		return
	}
	// The lease lasts until the response is acknowledged: a lost packet is sent
	// again from the store's memory.
	if l.Lease(&r.Operation, false) {
		r.Leasable()
	} else {
		r.stage = stageLease
	}
}

func runRead(r *Request) {
	r.Buf = r.Data
	r.submit()
}

func startWrite(_ *Queue, r *Request) {
	f := r.Cmd.ReadWrite()
	l := r.enter(r.Cmd.NSID)
	if l == nil || !r.writable(l) || !r.blocks(l, f) || !r.sized() {
		return
	}
	r.Op, r.FUA = backend.OpWrite, r.durable(f.FUA)
	in := r.Link.InCapsule()
	if in != nil && (l.Viewer != nil || Aligned(in, l.Volume.Info.Alignment)) {
		r.Data = in
		runWrite(r)
		return
	}
	r.wantBuffer()
}

// durable reports whether what the command writes has to be durable when it is answered.
func (r *Request) durable(fua bool) bool { return fua || r.Queue.Durable.Load() }

// runWrite has the data whole.
func runWrite(r *Request) {
	r.Buf = r.Data
	l := r.Lane
	if l.Viewer == nil || r.FUA && l.Volume.Info.Volatile {
		r.submit()
		return
	}
	if l.Lease(&r.Operation, true) {
		r.Leasable()
	} else {
		r.stage = stageLease
	}
}

// Leasable implements [storage.Owner].
func (r *Request) Leasable() {
	r.io.leased(r, r.Lane.Memory[r.Offset:r.Offset+r.Length])
}

func readLeased(r *Request, view []byte) {
	r.Gate.Count(r.Op, r.Length)
	r.finishData(view, r.Lane.Key)
}

func writeLeased(r *Request, view []byte) {
	copy(view, r.Buf)
	writeDone(r)
}

// readDone answers, with force unit access not before what was read is durable (NVM
// command set 1.0, 3.2.4).
func readDone(r *Request) {
	if r.FUA {
		r.Op, r.FUA = backend.OpFlush, false
		r.submit()
		return
	}
	r.Gate.Count(backend.OpRead, r.Length)
	r.FinishBuffer()
}

func writeDone(r *Request) {
	r.Gate.Count(r.Op, r.Length)
	r.Finish(capsule.StatusSuccess)
}

// submit gives the operation to the store.
func (r *Request) submit() {
	r.stage = stageBackend
	r.Lane.Put(&r.Operation)
}

// LBA is where the command's blocks start, for the error log.
func (r *Request) LBA() capsule.LBA {
	switch capsule.IOOpcode(r.Cmd.Opcode) {
	case capsule.IOFlush, capsule.IODatasetManagement:
		return 0
	}
	if r.io == nil || r.io.access == reservation.None {
		return 0
	}
	return r.Cmd.ReadWrite().SLBA
}

// Completed implements [storage.Owner].
func (r *Request) Completed(err error) {
	if err != nil || r.stopped != capsule.StatusSuccess {
		r.failed(err)
		return
	}
	r.io.done(r)
}

// failed ends a command whose operation failed, or that was to be stopped.
func (r *Request) failed(err error) {
	status := r.stopped
	if err == backend.ErrUnsupported { // a copy, and no failure of the store
		if status.OK() {
			r.copyByHand()
			return
		}
		err = nil
	}
	if err != nil {
		r.Lane.Failure(r.Op, err)
		status = storage.StatusOf(r.Op, err)
	}
	r.end(status)
}
