package command

import (
	"github.com/nvmeof-go/nvmeof/backend"
	"github.com/nvmeof-go/nvmeof/capsule"
	"github.com/nvmeof-go/nvmeof/nvmeof/internal/shard"
	"github.com/nvmeof-go/nvmeof/nvmeof/target/internal/storage"
	"github.com/nvmeof-go/nvmeof/rdmatransport"
)

// A Link is what a request needs of the command that it executes: the queue's
// [fabric.Command].
type Link interface {
	Wrong() capsule.Status                                 // with which the command must fail: its capsule is malformed
	Length() int                                           // bytes of data that the SGL describes
	InCapsule() []byte                                     // data that came with the command
	Fetch(pieces []rdmatransport.SGE)                      // from host memory; then fetched
	Reading() bool                                         // the host has been asked for a part of that
	Respond(s capsule.Status, result uint64)               // then done
	RespondData(pieces []rdmatransport.SGE, result uint64) // then done, until which the memory must not change
}

// A stage is where a request is. In each there is one event that moves it on.
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
	stageBackend               // the backend has it, or will have it this turn
	stageHeld                  // an Asynchronous Event Request, or the authenticator has its message
	stageAnswered              // waits for the response's acknowledgement
)

// A Request is one command from its arrival to the acknowledgement of its
// response. There is one for every context of the queue, used again and again.
type Request struct {
	Queue *Queue
	Cmd   *capsule.Command
	Link  Link
	stage stage

	Result uint64 // of the completion
	Data   []byte // the command's data, in the buffer or in the capsule
	buffer shard.Buffer
	waiter shard.BufferWaiter

	perform func(*Request) // admin and fabrics commands
	io      *Row           // I/O commands

	fault   uint16         // see Blame
	stopped capsule.Status // why the command must not go on
	extra   *extra         // what few commands have; nil: nothing
	storage.Operation
}

func (r *Request) init(q *Queue) {
	r.Queue = q
	r.waiter.Ready = r.buffered
	r.Operation.Owner = r
}

// begin takes a command.
func (r *Request) begin(l Link, cmd *capsule.Command) {
	r.Link, r.Cmd = l, cmd
	r.Result, r.Data, r.perform, r.io, r.stopped = 0, nil, nil, nil, capsule.StatusSuccess
	r.Request, r.fault = backend.Request{}, capsule.ParameterUnknown
}

// wantBuffer gets memory for the command's data, now or later.
func (r *Request) wantBuffer() { r.wantBufferOf(r.Link.Length()) }

// wantBufferOf gets n bytes, of which the data takes the first.
func (r *Request) wantBufferOf(n int) {
	arena := r.Queue.Shard.Arena()
	if b, ok := arena.Alloc(n); ok {
		r.buffered(b)
		return
	}
	r.stage = stageBuffer
	arena.Wait(&r.waiter, n)
}

// buffered goes on with memory for the data: to fetch it from the host, or to
// have it filled for the host.
func (r *Request) buffered(b shard.Buffer) {
	r.buffer = b
	r.Data = b.Bytes()[:r.Link.Length()]
	if r.direction() == capsule.HostToController {
		if in := r.Link.InCapsule(); in != nil {
			copy(r.Data, in) // a backend wants better alignment than the capsule's
			r.Ready()
			return
		}
		r.stage = stageFetch
		r.fetch(r.Data)
		return
	}
	r.Ready()
}

// fetch gets the command's data into memory of the arena.
func (r *Request) fetch(into []byte) {
	r.Queue.piece[0] = rdmatransport.SGE{Buf: into, LKey: r.Queue.At.ArenaKey}
	r.Link.Fetch(r.Queue.piece[:])
}

// Ready goes on when the data is here, or the memory for it.
func (r *Request) Ready() {
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

// direction is which way the command's data goes.
func (r *Request) direction() capsule.Direction {
	if r.Cmd.Opcode == capsule.OpcodeFabrics {
		return r.Cmd.FabricsType().Direction()
	}
	return capsule.AdminOpcode(r.Cmd.Opcode).Direction()
}

// Finish answers without data and gives back what the command held.
func (r *Request) Finish(s capsule.Status) {
	r.Queue.Counts.answered(r, s)
	r.release()
	if !s.OK() {
		r.Queue.Owner.NoteError(r, s)
	}
	r.stage = stageAnswered
	r.Link.Respond(s, r.Result)
}

// finishData answers with data, which must not change until done.
func (r *Request) finishData(b []byte, key rdmatransport.LKey) {
	r.Queue.Counts.sent(len(b))
	r.stage = stageAnswered
	r.Queue.piece[0] = rdmatransport.SGE{Buf: b, LKey: key}
	r.Link.RespondData(r.Queue.piece[:], r.Result)
}

// AnsweredAdmin reports whether it is an admin or fabrics command that was answered.
func (r *Request) AnsweredAdmin() bool { return r.stage == stageAnswered && r.perform != nil }

// Await goes on by calling perform when the command's data is here, or the memory for it.
func (r *Request) Await(perform func(*Request)) {
	r.perform = perform
	if in := r.Link.InCapsule(); in != nil {
		r.Data = in
		perform(r)
		return
	}
	r.wantBuffer()
}

// PerformNow is await for a command without data.
func (r *Request) PerformNow(perform func(*Request)) {
	r.perform = perform
	perform(r)
}

// ClearForHost clears memory for data of the host, if that is what there is.
func (r *Request) ClearForHost() bool {
	if !r.buffer.Valid() || r.direction() != capsule.ControllerToHost {
		return false
	}
	clear(r.Data)
	return true
}

// Keep says that somebody has the request, who answers it.
func (r *Request) Keep() { r.stage = stageHeld }

// FinishBuffer answers with the data that is in the buffer.
func (r *Request) FinishBuffer() { r.finishData(r.Data, r.Queue.At.ArenaKey) }

// Done is the end: the queue needs nothing of the command any more.
func (r *Request) Done() {
	r.release()
	if r.extra != nil {
		r.extra.given(r)
	}
	r.stage, r.Link, r.Cmd = stageIdle, nil, nil
}

// release gives back the buffer, the lease, the lane and the gate, whichever are held.
func (r *Request) release() {
	if r.buffer.Valid() {
		r.Queue.Shard.Arena().Release(r.buffer)
		r.buffer = shard.Buffer{}
	}
	if r.extra != nil {
		r.extra.release(r)
	}
	r.Data = nil
	r.Operation.Release()
}
