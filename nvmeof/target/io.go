package target

import (
	"github.com/nvmeof-go/nvmeof/backend"
	"github.com/nvmeof-go/nvmeof/capsule"
	"github.com/nvmeof-go/nvmeof/nvmeof/target/internal/namespace"
	"github.com/nvmeof-go/nvmeof/nvmeof/target/internal/reservation"
	"github.com/nvmeof-go/nvmeof/nvmeof/target/internal/volume"
)

// An ioRow is one opcode of the NVM command set. start judges the command and
// sets it going; run goes on when its data is here, or the memory for it.
type ioRow struct {
	start   func(q *queue, r *request)
	run     func(r *request)
	leased  func(r *request, view []byte) // the lease is held; view is the blocks
	done    func(r *request)              // the store has carried the operation out
	step    func(r *request)              // begins the next operation of several
	access  reservation.Access            // what a reservation is about
	effects capsule.Effects
}

func ioTable() [256]ioRow {
	const changes = capsule.EffectBlockContentChange
	return [256]ioRow{
		capsule.IOFlush:             {start: startFlush, done: (*request).flushNext, step: (*request).flushNext, access: reservation.Write},
		capsule.IOWrite:             {start: startWrite, run: runWrite, leased: writeLeased, done: writeDone, access: reservation.Write, effects: changes},
		capsule.IORead:              {start: startRead, run: runRead, leased: readLeased, done: readDone, access: reservation.Read},
		capsule.IOCompare:           {start: startCompare, run: runCompare, leased: compareLeased, done: compareDone, step: (*request).readNext, access: reservation.Read},
		capsule.IOWriteZeroes:       {start: startWriteZeroes, done: writeZeroesDone, access: reservation.Write, effects: changes},
		capsule.IODatasetManagement: {start: startDSM, run: runDSM, done: (*request).deallocateNext, step: (*request).deallocateNext, access: reservation.Write, effects: changes},
		capsule.IOVerify:            {start: startVerify, done: verifyDone, step: (*request).readNext, access: reservation.Read},
		capsule.IOCopy:              {start: startCopy, run: runCopy, done: copyDone, step: (*request).readNext, access: reservation.Read | reservation.Write, effects: changes},

		capsule.IOReservationRegister: {start: startReservation, run: runReservation},
		capsule.IOReservationReport:   {start: startReport, run: runReport},
		capsule.IOReservationAcquire:  {start: startReservation, run: runReservation},
		capsule.IOReservationRelease:  {start: startReservation, run: runReservation},
	}
}

// startIO starts a command of an I/O queue.
func (q *queue) startIO(r *request) {
	row := &q.target.io[r.cmd.Opcode]
	if row.start == nil {
		r.finish(capsule.StatusInvalidOpcode | capsule.StatusDNR)
		return
	}
	r.io = row
	row.start(q, r)
}

// enter finds the command's namespace, which it keeps until it is finished. It
// returns nil if the command has been answered, or held back to be started anew.
func (r *request) enter(id capsule.NSID) *volume.Lane {
	ns, status := r.queue.controller.view.Reach(id)
	if ns == nil {
		r.finish(status)
		return nil
	}
	return r.through(ns)
}

// through is enter for a namespace that was found.
func (r *request) through(ns *namespace.Namespace) *volume.Lane {
	g := ns.Gate(r.queue.worker.Index)
	if g.Shut() {
		r.hold(g)
		return nil
	}
	if r.conflicts(ns.Volume) {
		r.finish(capsule.StatusReservationConflict | capsule.StatusDNR)
		return nil
	}
	l := g.Lane
	g.Enter()
	r.gate = g
	l.Enter(&r.Operation)
	return l
}

// hold keeps a command outside of a gate, before it has begun.
func (r *request) hold(g *namespace.Gate) {
	r.stage, r.waitingAt = stageGate, g
	g.Hold(r)
}

// Admitted implements [namespace.Visitor].
func (r *request) Admitted(g *namespace.Gate) {
	if r.waitingAt == g { // its queue has not ended meanwhile
		r.waitingAt = nil
		r.io.start(r.queue, r)
	}
}

// blocks judges the fields that Read, Write and Write Zeroes share, and sets the
// operation's range. It answers the command where it fails.
func (r *request) blocks(l *volume.Lane, f capsule.ReadWrite) bool {
	switch {
	case f.PRINFO != 0 || f.STC || f.DTYPE != 0:
		// No protection information, no directives.
		r.finish(invalidField)
	case !l.Volume.InRange(f.SLBA, f.Blocks):
		r.finish(capsule.StatusLBAOutOfRange | capsule.StatusDNR)
	default:
		r.Offset, r.Length = int64(f.SLBA)<<l.Volume.Shift, int64(f.Blocks)<<l.Volume.Shift
		return true
	}
	return false
}

// sized judges the length of the data against the blocks.
func (r *request) sized() bool {
	switch {
	case r.Length > int64(r.queue.target.cfg.MaxData):
		r.finish(invalidField) // MDTS
	case int64(r.link.Length()) != r.Length:
		r.finish(capsule.StatusSGLDataLength | capsule.StatusDNR)
	default:
		return true
	}
	return false
}

// writable refuses changes of a namespace that is read-only, itself or for this
// host.
func (r *request) writable(_ *volume.Lane) bool {
	if c := r.queue.controller; !c.view.MayWrite(r.gate.Namespace) {
		c.RefuseWrite(r.gate.Namespace)
		r.finish(capsule.StatusNamespaceWriteProtected | capsule.StatusDNR)
		return false
	}
	return true
}

func startRead(_ *queue, r *request) {
	f := r.cmd.ReadWrite()
	l := r.enter(r.cmd.NSID)
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

func runRead(r *request) {
	r.Buf = r.data
	r.submit()
}

func startWrite(_ *queue, r *request) {
	f := r.cmd.ReadWrite()
	l := r.enter(r.cmd.NSID)
	if l == nil || !r.writable(l) || !r.blocks(l, f) || !r.sized() {
		return
	}
	r.Op, r.FUA = backend.OpWrite, f.FUA
	in := r.link.InCapsule()
	if in != nil && (l.Viewer != nil || aligned(in, l.Volume.Info.Alignment)) {
		r.data = in
		runWrite(r)
		return
	}
	r.wantBuffer()
}

// runWrite has the data whole.
func runWrite(r *request) {
	r.Buf = r.data
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

// Leasable implements [operationOwner].
func (r *request) Leasable() {
	r.io.leased(r, r.Lane.Memory[r.Offset:r.Offset+r.Length])
}

func readLeased(r *request, view []byte) {
	r.gate.Count(r.Op, r.Length)
	r.finishData(view, r.Lane.Key)
}

func writeLeased(r *request, view []byte) {
	copy(view, r.Buf)
	writeDone(r)
}

// readDone answers, with force unit access not before what was read is durable (NVM
// command set 1.0, 3.2.4).
func readDone(r *request) {
	if r.FUA {
		r.Op, r.FUA = backend.OpFlush, false
		r.submit()
		return
	}
	r.gate.Count(backend.OpRead, r.Length)
	r.finishData(r.data, r.queue.worker.arenaKey)
}

func writeDone(r *request) {
	r.gate.Count(r.Op, r.Length)
	r.finish(capsule.StatusSuccess)
}

// submit gives the operation to the store.
func (r *request) submit() {
	r.stage = stageBackend
	r.Lane.Put(&r.Operation)
}

// lba is where the command's blocks start, for the error log.
func (r *request) lba() capsule.LBA {
	switch capsule.IOOpcode(r.cmd.Opcode) {
	case capsule.IOFlush, capsule.IODatasetManagement:
		return 0
	}
	if r.io == nil || r.io.access == reservation.None {
		return 0
	}
	return r.cmd.ReadWrite().SLBA
}

// Completed implements [operationOwner].
func (r *request) Completed(err error) {
	if err != nil || r.stopped != capsule.StatusSuccess {
		r.failed(err)
		return
	}
	r.io.done(r)
}

// failed ends a command whose operation failed, or that was to be stopped.
func (r *request) failed(err error) {
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
		status = volume.StatusOf(r.Op, err)
	}
	r.end(status)
}
