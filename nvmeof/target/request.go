package target

import (
	"github.com/nvmeof-go/nvmeof/backend"
	"github.com/nvmeof-go/nvmeof/capsule"
	"github.com/nvmeof-go/nvmeof/nvmeof/internal/shard"
	"github.com/nvmeof-go/nvmeof/nvmeof/target/internal/storage"
	"github.com/nvmeof-go/nvmeof/rdmatransport"
)

// A link is what a request uses of the command that it executes: the queue's
// [fabric.Command].
type link interface {
	Wrong() capsule.Status                                 // the status of a malformed capsule
	Length() int                                           // bytes of data that the SGL describes
	InCapsule() []byte                                     // data in the capsule
	Fetch(pieces []rdmatransport.SGE)                      // from host memory; then fetched
	Reading() bool                                         // an RDMA READ of that is in flight
	Respond(s capsule.Status, result uint64)               // then done
	RespondData(pieces []rdmatransport.SGE, result uint64) // then done, until which the memory must not change
	Charge(n int)                                          // as many bytes more to the turns of its host
	Movable() bool                                         // MoveData is possible
	MoveData(to rdmatransport.SGE) bool                    // of RespondData, to memory with the same content
}

// A stage is what a request waits for. Each has one event that ends it.
type stage uint8

const (
	stageIdle     stage = iota // no command
	stageFused                 // a fused half that waits for the other
	stageBuffer                // waits for a buffer of the arena
	stageScratch               // waits for a buffer of the worker's scratch arena
	stageFetch                 // waits for the host's data
	stageLease                 // waits in its lane for a lease
	stageGate                  // waits for a paused namespace
	stageUnseen                // waits for its host to identify the namespace
	stageBackend               // the backend has it, or gets it this turn
	stageHeld                  // an Asynchronous Event Request, or the authenticator has its message
	stageAnswered              // waits for the response's acknowledgement
)

// A request is one command from its arrival to the acknowledgement of its response. There
// is one for every context of the queue, which is reused.
type request struct {
	queue *queue
	cmd   *capsule.Command
	link  link
	stage stage

	result uint64 // of the completion
	data   []byte // the command's data, in the buffer or in the capsule
	buffer shard.Buffer
	waiter shard.BufferWaiter

	perform func(*request) // admin and fabrics commands
	io      *ioRow         // I/O commands

	measured

	fault    uint16         // see blame
	stopped  capsule.Status // the status with which the command has to end early
	volatile bool           // it writes without force unit access
	extra    *extra         // state of rarer commands; nil: none
	op       storage.Operation
}

func (r *request) init(q *queue) {
	r.queue = q
	r.waiter.Ready = r.buffered
	r.op.Owner = r
}

// begin takes a command.
func (r *request) begin(l link, cmd *capsule.Command) {
	r.link, r.cmd = l, cmd
	r.result, r.data, r.perform, r.io, r.stopped = 0, nil, nil, nil, capsule.StatusSuccess
	r.measured = measured{arrived: r.queue.worker.turn.Now, stored: notStored}
	r.op.Request, r.fault, r.volatile = backend.Request{}, capsule.ParameterUnknown, false
}

// wantBuffer gets memory for the command's data, now or later.
func (r *request) wantBuffer() { r.wantBufferOf(r.link.Length()) }

// wantBufferOf gets n bytes, of which the data takes the first. Where that is less than
// the length of data for the host the rest is zeroes.
func (r *request) wantBufferOf(n int) {
	share := r.queue.share
	if b, ok := share.Alloc(n); ok {
		r.buffered(b)
		return
	}
	r.stage = stageBuffer
	share.Wait(&r.waiter, n)
}

// buffered continues with memory for the data: to fetch it from the host, or to fill it
// for the host.
func (r *request) buffered(b shard.Buffer) {
	r.buffer = b
	r.data = b.Bytes()
	r.data = r.data[:min(len(r.data), r.link.Length())]
	if r.direction() == capsule.HostToController {
		if in := r.link.InCapsule(); in != nil {
			copy(r.data, in) // a backend needs better alignment than the capsule has
			r.ready()
			return
		}
		r.stage = stageFetch
		r.fetch(r.data, b)
		return
	}
	r.ready()
}

// fetch fetches the command's data into memory of a buffer.
func (r *request) fetch(into []byte, b shard.Buffer) {
	r.queue.pieces[0] = rdmatransport.SGE{Buf: into, LKey: r.queue.worker.keyOf(b)}
	r.moving = r.queue.worker.turn.Now
	r.link.Fetch(r.queue.pieces[:1])
}

// ready continues when the data has arrived, or there is memory for it.
func (r *request) ready() {
	if r.stopped != capsule.StatusSuccess {
		r.end(r.stopped)
		return
	}
	if r.io != nil {
		r.io.run(r)
		return
	}
	r.perform(r)
}

// What a command costs for each namespace that it looks at, in bytes of data that take as long.
const (
	lookCost   = 128
	healthCost = 1 << 10
)

// chargeAll counts what the command costs that looks at each namespace of its host: with thousands of them others
// would wait for many that each take as long as a thousand Reads.
func (r *request) chargeAll(cost int) {
	n := 0
	for range r.queue.controller.view.Listed {
		n++
	}
	r.link.Charge(n * cost)
}

// direction is the direction in which the command transfers data.
func (r *request) direction() capsule.Direction {
	if r.cmd.Opcode == capsule.OpcodeFabrics {
		return r.cmd.FabricsType().Direction()
	}
	return capsule.AdminOpcode(r.cmd.Opcode).Direction()
}

// finish completes the command without data and frees what it held.
func (r *request) finish(s capsule.Status) {
	r.queue.counts.answered(r, s)
	r.answered(s)
	r.release()
	if !s.OK() {
		r.queue.noteError(r, s)
	}
	r.stage = stageAnswered
	r.link.Respond(s, r.result)
}

// finishData completes the command with data, which must not change until done.
func (r *request) finishData(b []byte, key rdmatransport.LKey) {
	r.queue.counts.sent(len(b))
	r.answeredWith(len(b))
	r.stage = stageAnswered
	r.queue.pieces[0] = rdmatransport.SGE{Buf: b, LKey: key}
	r.link.RespondData(r.queue.pieces[:1], r.result)
}

// finishBuffer completes the command with the data in the buffer, and zeroes up to the
// length that the host wants, and leaves the namespace: nothing there has to wait until the
// host acknowledges.
func (r *request) finishBuffer() {
	r.op.Release()
	q, rest := r.queue, r.link.Length()-len(r.data)
	if rest == 0 {
		r.finishData(r.data, q.worker.keyOf(r.buffer))
		return
	}
	q.counts.sent(r.link.Length())
	r.answeredWith(r.link.Length())
	r.stage = stageAnswered
	zeroes := &q.worker.device.zeroes
	q.pieces = [2]rdmatransport.SGE{
		{Buf: r.data, LKey: q.worker.keyOf(r.buffer)},
		{Buf: zeroes.slab.Bytes()[:rest], LKey: zeroes.region.LKey()},
	}
	r.link.RespondData(q.pieces[:], r.result)
}

// await calls perform when the command's data has arrived, or there is memory for n bytes
// of it.
func (r *request) await(perform func(*request), n int) {
	r.perform = perform
	if in := r.link.InCapsule(); in != nil {
		r.data = in
		perform(r)
		return
	}
	r.wantBufferOf(n)
}

// performNow is await for a command without data.
func (r *request) performNow(perform func(*request)) {
	r.perform = perform
	perform(r)
}

// clearForHost clears the memory of data for the host, if the command has such data.
func (r *request) clearForHost() bool {
	if !r.buffer.Valid() || r.direction() != capsule.ControllerToHost {
		return false
	}
	clear(r.data)
	return true
}

// keep holds the request, which whoever called it completes.
func (r *request) keep() { r.stage = stageHeld }

// done ends the request: the queue no longer uses the command.
func (r *request) done() {
	r.delivered()
	r.release()
	if r.extra != nil {
		r.extra.given(r)
	}
	r.stage, r.link, r.cmd = stageIdle, nil, nil
}

// release frees the buffer, the lease, the lane and the gate, whichever are held.
func (r *request) release() {
	if r.buffer.Valid() {
		r.buffer.Release()
		r.buffer = shard.Buffer{}
	}
	if r.extra != nil {
		r.extra.release(r)
	}
	r.data = nil
	r.op.Release()
}
