package target

import (
	"github.com/nvmeof-go/nvmeof/backend"
	"github.com/nvmeof-go/nvmeof/capsule"
	"github.com/nvmeof-go/nvmeof/nvmeof/target/internal/meter"
	"github.com/nvmeof-go/nvmeof/nvmeof/target/internal/reservation"
	"github.com/nvmeof-go/nvmeof/nvmeof/target/internal/storage"
)

// An ioRow describes one opcode of the NVM command set. start checks the command and begins it; run continues when
// its data has arrived, or there is a buffer for it.
type ioRow struct {
	start   func(q *queue, r *request)
	run     func(r *request)
	leased  func(r *request, memory []byte) // called with the lease held; memory is that of the blocks
	done    func(r *request)                // the store has completed the operation
	step    func(r *request)                // begins the next one of several operations
	access  reservation.Access              // the access that a reservation must allow
	effects capsule.Effects
	kind    meter.Op // for the metrics
}

func ioTable() [256]ioRow {
	const changes = capsule.EffectBlockContentChange
	table := [256]ioRow{
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
	for o := range table {
		table[o].kind = meter.OpOf(capsule.IOOpcode(o))
	}
	return table
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

// enter finds the command's namespace and enters it until the command completes. It returns nil if the command has
// completed, or is held and will be started again.
func (r *request) enter(id capsule.NSID) *storage.Lane {
	ns, status := r.queue.controller.view.Reach(id)
	if ns == nil {
		r.finish(status)
		return nil
	}
	if !r.queue.controller.view.Knows(ns) {
		r.awaitIdentify(ns)
		return nil
	}
	return r.through(ns)
}

// through enters a namespace that was found.
func (r *request) through(ns *storage.Namespace) *storage.Lane {
	switch ns.Enter(&r.op, r.queue.worker.lanes.Index, r.queue.controller.hostID, r.io.access) {
	case storage.Held:
		r.stage = stageGate
		return nil
	case storage.Conflict:
		r.countIn(&ns.Gate(r.queue.worker.lanes.Index).Meter)
		if v := ns.Volume.Reservations; v.Shared() {
			r.confirmed(v, func(*reservation.State) { r.finish(capsule.StatusReservationConflict | capsule.StatusDNR) })
			return nil
		}
		r.finish(capsule.StatusReservationConflict | capsule.StatusDNR)
		return nil
	case storage.Lost:
		r.countIn(&ns.Gate(r.queue.worker.lanes.Index).Meter)
		r.finish(capsule.StatusANAInaccessible)
		return nil
	default:
		r.countIn(&r.op.Gate.Meter)
		return r.op.Lane
	}
}

// Admitted implements [storage.Owner]. It starts the command again.
func (r *request) Admitted() { r.io.start(r.queue, r) }

// blocks checks the fields that Read, Write and Write Zeroes share, and sets the operation's range. If that fails
// it completes the command and returns false.
func (r *request) blocks(l *storage.Lane, f capsule.ReadWrite) bool {
	switch {
	case f.PRINFO != 0: // no protection information
		r.finish(r.invalid(12, 26))
	case f.STC:
		r.finish(r.invalid(12, 24))
	case f.DTYPE != 0: // no directives
		r.finish(r.invalid(12, 20))
	case !l.Volume.InRange(f.SLBA, f.Blocks):
		r.finish(capsule.StatusLBAOutOfRange | capsule.StatusDNR)
	default:
		r.op.Offset, r.op.Length = int64(f.SLBA)<<l.Volume.Shift, int64(f.Blocks)<<l.Volume.Shift
		return true
	}
	return false
}

// sized checks the length of the data against the number of blocks.
func (r *request) sized() bool {
	switch {
	case r.op.Length > int64(r.queue.target.cfg.MaxData):
		r.finish(r.invalid(12, 0)) // MDTS
	case int64(r.link.Length()) != r.op.Length:
		r.finish(capsule.StatusSGLDataLength | capsule.StatusDNR)
	default:
		return true
	}
	return false
}

// writable completes the command with an error, and returns false, if the namespace is read-only for the host.
func (r *request) writable(_ *storage.Lane) bool {
	if q := r.queue; !q.controller.view.MayWrite(r.op.Gate.Namespace) {
		q.controller.refusedWrite(r.op.Gate.Namespace)
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
	r.op.Op, r.op.FUA = backend.OpRead, f.FUA && l.Volume.Info.Volatile
	if l.Leaser == nil || r.op.FUA || r.queue.controller.late.Load() {
		r.wantBuffer()
		return
	}
	// The lease ends when the response is acknowledged, since a lost packet is retransmitted from the store's
	// memory. Others do not wait that long; see Wanted.
	if l.Lease(&r.op, false) {
		r.Leasable()
	} else {
		r.stage = stageLease
	}
}

func runRead(r *request) {
	r.op.Buf = r.data
	r.submit()
}

func startWrite(_ *queue, r *request) {
	f := r.cmd.ReadWrite()
	l := r.enter(r.cmd.NSID)
	if l == nil || !r.writable(l) || !r.blocks(l, f) || !r.sized() {
		return
	}
	r.op.Op, r.op.FUA = backend.OpWrite, r.durable(f.FUA)
	in := r.link.InCapsule()
	if in != nil && (l.Leaser != nil || aligned(in, l.Volume.Info.Alignment)) {
		r.data = in
		runWrite(r)
		return
	}
	r.wantBuffer()
}

// durable reports whether the command's data has to be durable when it completes.
func (r *request) durable(fua bool) bool {
	if fua || r.queue.controller.durable.Load() {
		return true
	}
	r.queue.written.Add(r.cmd.NSID)
	r.volatile = true
	return false
}

// settled reports whether the command's data is as durable as it has to be. The host may have disabled the write
// cache since the command began; the flush for that only covers earlier completed writes. In that case settled
// begins another flush, as OpFlush, after which the operation is done once more.
func (r *request) settled() bool {
	if !r.volatile || !r.op.Lane.Volume.Info.Volatile || !r.queue.controller.durable.Load() {
		return true
	}
	r.volatile = false
	r.op.Op, r.op.FUA = backend.OpFlush, false // the last part of a copy may have had FUA
	r.submit()
	return false
}

// runWrite continues when all data has arrived.
func runWrite(r *request) {
	r.op.Buf = r.data
	l := r.op.Lane
	if l.Leaser == nil || r.op.FUA && l.Volume.Info.Volatile {
		r.submit()
		return
	}
	if l.Lease(&r.op, true) {
		r.Leasable()
	} else {
		r.stage = stageLease
	}
}

// Leasable implements [storage.Owner].
func (r *request) Leasable() {
	r.io.leased(r, r.op.Lane.Memory[r.op.Offset:r.op.Offset+r.op.Length])
}

func readLeased(r *request, memory []byte) {
	r.op.Gate.Count(r.op.Op, r.op.Length)
	r.finishData(memory, r.op.Lane.Key)
}

func writeLeased(r *request, memory []byte) {
	copy(memory, r.op.Buf)
	writeDone(r)
}

// readDone completes a Read. With Force Unit Access it first makes the data that was read durable (NVM command set
// 1.0, 3.2.4).
func readDone(r *request) {
	if r.op.FUA {
		r.op.Op, r.op.FUA = backend.OpFlush, false
		r.submit()
		return
	}
	r.op.Gate.Count(backend.OpRead, r.op.Length)
	r.finishBuffer()
}

func writeDone(r *request) {
	if r.op.Op != backend.OpFlush { // otherwise it was counted before
		r.op.Gate.Count(r.op.Op, r.op.Length)
	}
	if r.settled() {
		r.finish(capsule.StatusSuccess)
	}
}

// submit submits the operation to the store.
func (r *request) submit() {
	r.stage = stageBackend
	r.submitted = r.queue.worker.turn.Now
	r.op.Lane.Put(&r.op)
}

// lba returns the first block of the command, for the error log.
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

// Completed implements [storage.Owner].
func (r *request) Completed(err error) {
	r.storeTook(r.queue.worker.turn.Now - r.submitted)
	if err != nil || r.stopped != capsule.StatusSuccess {
		r.failed(err)
		return
	}
	r.io.done(r)
}

// failed completes a command whose operation has failed, or which has to end early.
func (r *request) failed(err error) {
	status := r.stopped
	if err == backend.ErrUnsupported && r.op.Op == backend.OpCopy { // not a failure of the store
		if status.OK() {
			r.copyByHand()
			return
		}
		err = nil
	}
	switch {
	case err == nil:
	case !r.queue.target.cfg.Gateway.serves(r.op.Gate.Namespace.Group()):
		// The target that serves the group now has fenced this one: the store has not failed.
		status = capsule.StatusANAInaccessible
	default:
		r.op.Lane.Failure(r.op.Op, err)
		status = storage.StatusOf(r.op.Op, err)
	}
	r.end(status)
}
