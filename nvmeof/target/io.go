package target

import (
	"github.com/nvmeof-go/nvmeof/backend"
	"github.com/nvmeof-go/nvmeof/capsule"
)

// An ioRow is one opcode of the NVM command set. start judges the command and
// sets it going; run goes on when its data is here, or the memory for it.
type ioRow struct {
	start   func(q *queue, r *request)
	run     func(r *request)
	effects capsule.Effects
}

func ioTable() [256]ioRow {
	const changes = capsule.EffectBlockContentChange
	return [256]ioRow{
		capsule.IOFlush:             {start: startFlush},
		capsule.IOWrite:             {start: startWrite, run: runWrite, effects: changes},
		capsule.IORead:              {start: startRead, run: runRead},
		capsule.IOWriteZeroes:       {start: startWriteZeroes, effects: changes},
		capsule.IODatasetManagement: {start: startDSM, run: runDSM, effects: changes},
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
func (r *request) enter(id capsule.NSID) *lane {
	ns, status := r.queue.controller.reach(id)
	if ns == nil {
		r.finish(status)
		return nil
	}
	return r.through(ns)
}

// through is enter for a namespace that was found.
func (r *request) through(ns *Namespace) *lane {
	w := r.queue.worker.index
	g := &ns.gates[w]
	if g.shut {
		g.hold(r)
		return nil
	}
	l := &ns.lanes[w]
	g.enter(&r.operation)
	l.enter(&r.operation)
	return l
}

// blocks judges the fields that Read, Write and Write Zeroes share, and sets the
// operation's range. It answers the command where it fails.
func (r *request) blocks(l *lane, f capsule.ReadWrite) bool {
	switch {
	case f.PRINFO != 0 || f.STC || f.DTYPE != 0:
		// No protection information, no directives.
		r.finish(invalidField)
	case !l.ns.inRange(f.SLBA, f.Blocks):
		r.finish(capsule.StatusLBAOutOfRange | capsule.StatusDNR)
	default:
		r.Offset, r.Length = int64(f.SLBA)<<l.ns.shift, int64(f.Blocks)<<l.ns.shift
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
func (r *request) writable(_ *lane) bool {
	if c := r.queue.controller; !c.mayWrite(r.gate.ns) {
		c.refuseWrite(r.gate.ns)
		r.finish(capsule.StatusNamespaceWriteProtected | capsule.StatusDNR)
		return false
	}
	return true
}

func startRead(_ *queue, r *request) {
	l := r.enter(r.cmd.NSID)
	if l == nil || !r.blocks(l, r.cmd.ReadWrite()) || !r.sized() {
		return
	}
	r.Op = backend.OpRead
	if l.viewer == nil {
		r.wantBuffer()
		return
	}
	// The lease lasts until the response is acknowledged: a lost packet is sent
	// again from the store's memory.
	if l.lease(&r.operation, false) {
		r.leasable()
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
	if in != nil && (l.viewer != nil || aligned(in, l.ns.info.Alignment)) {
		r.data = in
		runWrite(r)
		return
	}
	r.wantBuffer()
}

// runWrite has the data whole.
func runWrite(r *request) {
	r.Buf = r.data
	l := r.lane
	if l.viewer == nil || r.FUA && l.ns.info.Volatile {
		r.submit()
		return
	}
	if l.lease(&r.operation, true) {
		r.leasable()
	} else {
		r.stage = stageLease
	}
}

// leasable implements [operationOwner].
func (r *request) leasable() {
	l := r.lane
	view := l.memory[r.Offset : r.Offset+r.Length]
	if r.Op == backend.OpRead {
		l.count(r.Op, r.Length)
		r.finishData(view, l.key)
		return
	}
	copy(view, r.Buf)
	l.count(r.Op, r.Length)
	r.finish(capsule.StatusSuccess)
}

// submit gives the operation to the store.
func (r *request) submit() {
	r.stage = stageBackend
	r.lane.put(&r.operation)
}

// lba is where the command's blocks start, for the error log.
func (r *request) lba() capsule.LBA {
	if r.io == nil {
		return 0
	}
	return r.cmd.ReadWrite().SLBA
}

// completed implements [operationOwner].
func (r *request) completed(err error) {
	l := r.lane
	if err != nil {
		l.failure(r.Op, err)
		r.finish(statusOf(r.Op, err))
		return
	}
	l.count(r.Op, r.Length)
	switch r.Op {
	case backend.OpRead:
		r.finishData(r.data, r.queue.worker.arenaKey)
	case backend.OpFlush:
		r.flushNext()
	case backend.OpDeallocate:
		r.deallocateNext()
	default:
		r.finish(capsule.StatusSuccess)
	}
}
