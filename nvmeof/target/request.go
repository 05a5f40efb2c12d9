package target

import (
	"unsafe"

	"github.com/nvmeof-go/nvmeof/backend"
	"github.com/nvmeof-go/nvmeof/capsule"
	"github.com/nvmeof-go/nvmeof/nvmeof/internal/shard"
	"github.com/nvmeof-go/nvmeof/nvmeof/target/internal/storage"
	"github.com/nvmeof-go/nvmeof/rdmatransport"
)

// A link is the part of a command that a request uses: the queue's [fabric.Command].
type link interface {
	Wrong() capsule.Status                                 // the status of a malformed capsule
	Length() int                                           // bytes of data that the SGL describes
	InCapsule() []byte                                     // data in the capsule
	Fetch(pieces []rdmatransport.SGE)                      // fetches the data from host memory, then calls fetched
	Reading() bool                                         // an RDMA READ of Fetch is in flight
	Respond(s capsule.Status, result uint64)               // sends the response, then calls done
	RespondData(pieces []rdmatransport.SGE, result uint64) // the same with data; the memory must not change until done
	Charge(n int)                                          // charges n more bytes to its host in the dispatcher
	Movable() bool                                         // MoveData is possible
	MoveData(to rdmatransport.SGE) bool                    // moves the data of RespondData to memory with the same content
}

// A stage is what a request waits for. Exactly one event ends each.
type stage uint8

const (
	stageIdle     stage = iota // no command
	stageFused                 // one half of a fused operation waits for the other
	stageBuffer                // waits for a buffer of the arena
	stageScratch               // waits for a buffer of the worker's scratch arena
	stageFetch                 // waits for the host's data
	stageLease                 // waits in its lane for a lease
	stageGate                  // waits at the gate of a namespace, which is paused
	stageUnseen                // waits for its host to identify the namespace
	stageBackend               // was submitted to the backend, or will be in this turn
	stageHeld                  // an Asynchronous Event Request, or the authenticator processes the message
	stageAnswered              // waits for the response's acknowledgement
)

// A request is one command, from its arrival to the acknowledgement of its response. Each context of the queue has
// one, which is reused.
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

	fault    uint16         // the field to blame; see blame
	stopped  capsule.Status // the status with which the command has to end early
	volatile bool           // it writes without Force Unit Access
	extra    *extra         // state of less common commands; nil: none
	op       storage.Operation
}

// requestMemory is how many bytes a request takes: with its extra, and the functions of both that are called when
// there is a buffer.
const requestMemory = int(unsafe.Sizeof(request{})+unsafe.Sizeof(extra{})) + 48

func (r *request) init(q *queue) {
	r.queue = q
	r.waiter.Ready = r.buffered
	r.op.Owner = r
}

// begin initializes the request for a command.
func (r *request) begin(l link, cmd *capsule.Command) {
	r.link, r.cmd = l, cmd
	r.result, r.data, r.perform, r.io, r.stopped = 0, nil, nil, nil, capsule.StatusSuccess
	r.measured = measured{arrived: r.queue.worker.turn.Now, stored: notStored}
	r.op.Request, r.fault, r.volatile = backend.Request{}, capsule.ParameterUnknown, false
}

// wantBuffer gets a buffer for the command's data, now or later.
func (r *request) wantBuffer() { r.wantBufferOf(r.link.Length()) }

// wantBufferOf gets a buffer of n bytes for the beginning of the data. If the host requests more, the rest is
// zero.
func (r *request) wantBufferOf(n int) {
	share := r.queue.share
	if b, ok := share.Alloc(n); ok {
		r.buffered(b)
		return
	}
	r.stage = stageBuffer
	share.Wait(&r.waiter, n)
}

// buffered continues with a buffer for the data: the data is fetched into it, or generated in it for the host.
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

// fetch fetches the command's data into a buffer.
func (r *request) fetch(into []byte, b shard.Buffer) {
	r.queue.pieces[0] = rdmatransport.SGE{Buf: into, LKey: r.queue.worker.keyOf(b)}
	r.moving = r.queue.worker.turn.Now
	r.link.Fetch(r.queue.pieces[:1])
}

// ready continues when the data has arrived, or there is a buffer for it.
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

// Costs of a command for each namespace that it visits, in bytes of data whose transfer takes as long.
const (
	lookCost   = 128
	healthCost = 1 << 10
)

// chargeAll charges a command that visits each namespace of its host: with thousands of namespaces, others would
// wait for many commands that each take as long as a thousand Reads.
func (r *request) chargeAll(cost int) {
	n := 0
	for range r.queue.controller.view.Listed {
		n++
	}
	r.link.Charge(n * cost)
}

// direction returns the direction in which the command transfers data.
func (r *request) direction() capsule.Direction {
	if r.cmd.Opcode == capsule.OpcodeFabrics {
		return r.cmd.FabricsType().Direction()
	}
	return capsule.AdminOpcode(r.cmd.Opcode).Direction()
}

// finish completes the command without data and frees its resources.
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

// finishBuffer completes the command with the data in the buffer, followed by zeroes up to the length that the
// host requests. It leaves the namespace at once: nothing there has to wait until the host acknowledges the data.
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

// await calls perform when the command's data has arrived, or there is a buffer for n bytes of it.
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

// clearForHost clears the buffer and reports true if the command sends data to the host.
func (r *request) clearForHost() bool {
	if !r.buffer.Valid() || r.direction() != capsule.ControllerToHost {
		return false
	}
	clear(r.data)
	return true
}

// keep holds the request. The caller completes it later.
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

// release frees the buffer, the lease, the lane and the gate that the request holds.
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
