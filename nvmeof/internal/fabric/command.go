package fabric

import (
	"github.com/nvmeof-go/nvmeof/capsule"
	"github.com/nvmeof-go/nvmeof/nvmeof/internal/list"
	"github.com/nvmeof-go/nvmeof/rdmatransport"
)

// A Command is one command of a controller's queue. Its memory is allocated with the queue and reused.
type Command struct {
	SQE capsule.Command
	// Index is the number of the context, from 0 to Queue().Commands() - 1. It never changes, so a handler can keep its
	// own state of each command in an array.
	Index int32

	queue  *TargetQueue
	state  commandState
	given  bool           // it was passed to the handler
	wrong  capsule.Status // see Wrong
	holds  bool           // it holds receive recv, which has not been posted again
	recv   int32
	bytes  int32 // received after the command
	posted int32 // work requests of the response, for the send queue's accounting
	data   data
	pieces []rdmatransport.SGE
	fetch  fetch
	write  int // bytes of data to send before the response

	cqe      capsule.Completion
	link     list.Link[Command] // in one list of the queue
	sameHash *Command           // next in its list of identifiers
}

type commandState uint8

const (
	commandFree       commandState = iota
	commandHeld                    // the handler owns it
	commandFetching                // RDMA READs queued or in flight
	commandResponding              // answered; the response is not posted
	commandSent                    // response posted, not acknowledged
	commandDead                    // to be returned to the handler
)

// Wrong returns the status with which the command must fail because of its SGL or its identifier, or success.
func (c *Command) Wrong() capsule.Status { return c.wrong }

// Queue returns the command's queue.
func (c *Command) Queue() *TargetQueue { return c.queue }

// Length returns the length in bytes of the data that the command's SGL describes.
func (c *Command) Length() int { return c.data.length }

// InCapsule returns the data that arrived with the command, or nil if there is none or the data is in host memory. It
// starts at a multiple of 4096 if the host put it at offset 0, and is valid until the command is answered.
func (c *Command) InCapsule() []byte { return c.data.inCapsule }

// Remote reports whether the data is in host memory, so that Fetch or RespondData must move it.
func (c *Command) Remote() bool { return len(c.data.remotes) > 0 }

// Direction returns the direction of the data transfer that the opcode specifies.
func (c *Command) Direction() capsule.Direction { return direction(&c.SQE) }

// Fetch reads the command's data from host memory into the given pieces, whose total length must be Length, and then
// calls Handler.Fetched. The slice may be reused at once, the memory only after Fetched or Done.
func (c *Command) Fetch(pieces []rdmatransport.SGE) {
	c.mustBeHeld()
	c.setPieces(pieces)
	if piecesLength(pieces) != c.data.length || !c.Remote() {
		panic("fabric: Fetch into pieces that do not match the command's data")
	}
	q := c.queue
	if q.state != StateLive {
		q.bury(c)
		return
	}
	c.state = commandFetching
	c.fetch = fetch{}
	q.fetches.Push(c, &c.link)
	q.slot.Flush()
}

// Reading reports whether RDMA READs of Fetch are in flight.
func (c *Command) Reading() bool { return c.state == commandFetching && c.fetch.flying > 0 }

// Respond answers the command without data.
func (c *Command) Respond(s capsule.Status, result uint64) {
	c.mustBeHeld()
	c.respond(s, result, 0)
}

// RespondData sends the given pieces, at most Length bytes, to host memory and then answers with success. The slice may
// be reused at once. The memory must not change until Handler.Done, since retransmissions read it again.
func (c *Command) RespondData(pieces []rdmatransport.SGE, result uint64) {
	c.mustBeHeld()
	n := piecesLength(pieces)
	if n > c.data.length || n > 0 && !c.Remote() {
		panic("fabric: RespondData with more than the command asks for")
	}
	c.setPieces(pieces)
	c.respond(capsule.StatusSuccess, result, n)
}

// Charge adds n bytes to the cost of a command whose execution takes as long as that many bytes.
func (c *Command) Charge(n int) {
	if p := c.queue.party; p != nil {
		p.credit -= n
	}
}

// Movable reports whether the queue supports MoveData.
func (c *Command) Movable() bool { return c.queue.mover != nil }

// MoveData replaces the memory from which the data of RespondData is sent by to, which has the same content.
// RespondData must have had one piece. If MoveData returns true, the old memory belongs to the handler again.
func (c *Command) MoveData(to rdmatransport.SGE) bool {
	if len(c.pieces) != 1 || len(c.pieces[0].Buf) != len(to.Buf) {
		return false
	}
	switch q := c.queue; {
	case c.state == commandResponding:
	case c.state != commandSent || q.state != StateLive:
		return false
	case !q.mover.MoveSource(q.slot.ID(makeTag(tagWrite, c.Index)), c.pieces[0].Buf, to):
		return false
	}
	c.pieces[0] = to
	return true
}

func (c *Command) mustBeHeld() {
	if c.state != commandHeld {
		panic("fabric: command is not the handler's")
	}
}

func (c *Command) setPieces(pieces []rdmatransport.SGE) {
	if len(pieces) > cap(c.pieces) {
		panic("fabric: more pieces than TargetConfig.MaxPieces")
	}
	c.pieces = append(c.pieces[:0], pieces...)
}

func piecesLength(pieces []rdmatransport.SGE) int {
	n := 0
	for i := range pieces {
		n += len(pieces[i].Buf)
	}
	return n
}
