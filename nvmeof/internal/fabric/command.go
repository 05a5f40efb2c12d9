package fabric

import (
	"github.com/nvmeof-go/nvmeof/capsule"
	"github.com/nvmeof-go/nvmeof/nvmeof/internal/list"
	"github.com/nvmeof-go/nvmeof/rdmatransport"
)

// A Command is one command of a controller's queue, in a context that was made
// with the queue and is used again.
type Command struct {
	SQE capsule.Command
	// Index is the context's number, from 0 to Queue().Commands() - 1: a handler's own state
	// of a command goes into an array of its own. It is constant.
	Index int32

	queue  *TargetQueue
	state  commandState
	given  bool           // the handler knows it
	wrong  capsule.Status // see Wrong
	holds  bool           // recv, which has not been posted again
	recv   int32
	bytes  int32 // that arrived after the command
	posted int32 // work requests of the response, for the send queue's accounts
	data   data
	pieces []rdmatransport.SGE
	fetch  fetch
	write  int // bytes of data to send before the response

	cqe      capsule.Completion
	link     list.Link[Command] // in one list of the queue
	sameHash *Command           // identifiers has it
}

type commandState uint8

const (
	commandFree       commandState = iota
	commandHeld                    // the handler has it
	commandFetching                // RDMA READs queued or in flight
	commandResponding              // answered, not posted
	commandSent                    // response posted, not acknowledged
	commandDead                    // on its way back to the handler
)

// Wrong is why the command must fail, or success: what is wrong with its SGL or its
// identifier.
func (c *Command) Wrong() capsule.Status { return c.wrong }

// Queue is the command's queue.
func (c *Command) Queue() *TargetQueue { return c.queue }

// Length is how many bytes of data the command's SGL describes.
func (c *Command) Length() int { return c.data.length }

// InCapsule is the data that arrived with the command, nil if its data is in
// host memory or there is none. It starts at a multiple of 4096 if the host put
// it at offset 0, and stays valid until the command is answered.
func (c *Command) InCapsule() []byte { return c.data.inCapsule }

// Remote reports whether the data is in host memory, so that it takes Fetch or
// RespondData to move it.
func (c *Command) Remote() bool { return len(c.data.remotes) > 0 }

// Direction is which way the opcode says that data goes.
func (c *Command) Direction() capsule.Direction { return direction(&c.SQE) }

// Fetch reads the command's data from host memory into the given pieces, which
// together are as long as Length says, and calls Handler.Fetched. The slice may
// be reused at once, the memory not before Fetched or Done.
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

// Respond answers the command without sending data.
func (c *Command) Respond(s capsule.Status, result uint64) {
	c.mustBeHeld()
	c.respond(s, result, 0)
}

// RespondData sends the given pieces, no more than Length bytes, to host memory
// and then answers with success. The slice may be reused at once; the memory
// must stay as it is until Handler.Done, since a lost packet is sent again from
// there.
func (c *Command) RespondData(pieces []rdmatransport.SGE, result uint64) {
	c.mustBeHeld()
	n := piecesLength(pieces)
	if n > c.data.length || n > 0 && !c.Remote() {
		panic("fabric: RespondData with more than the command asks for")
	}
	c.setPieces(pieces)
	c.respond(capsule.StatusSuccess, result, n)
}

// Charge counts n bytes more to the turns of the command's party, for a command that takes as long as those.
func (c *Command) Charge(n int) {
	if p := c.queue.party; p != nil {
		p.credit -= n
	}
}

// Movable reports whether MoveData is possible on the queue.
func (c *Command) Movable() bool { return c.queue.mover != nil }

// MoveData has the data of RespondData, which was one piece, sent from to from now on,
// which has the same content: the memory that was given before is the handler's again if
// it returns true.
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
