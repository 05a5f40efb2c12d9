package fabric

import (
	"errors"
	"fmt"
	"net/netip"

	"github.com/nvmeof-go/nvmeof/capsule"
	"github.com/nvmeof-go/nvmeof/nvmeof/internal/list"
	"github.com/nvmeof-go/nvmeof/nvmeof/internal/shard"
	"github.com/nvmeof-go/nvmeof/rdmatransport"
)

// TargetConfig describes a controller's queue. A zero field takes the default,
// except where it is required.
type TargetConfig struct {
	Shard   *shard.Shard         // required
	Domain  rdmatransport.Domain // required
	Attrs   rdmatransport.Attrs  // required: the device's
	Handler Handler              // required

	// Depth is how many receives are posted: HSQSIZE + 1. Required.
	Depth int
	// Shared are receives of the same shard, domain and InCapsule, for all its queues; nil:
	// the queue has its own. A host that holds more than Depth of them loses the queue.
	Shared *SharedReceives
	// Dispatcher is that of the shard; nil: commands begin as they arrive. Those of an Admin
	// queue, most of which keep a host alive, are no reason for others to take turns.
	Dispatcher *Dispatcher
	Admin      bool
	// InCapsule is how many bytes of data fit a capsule beside the command, a
	// multiple of 16; 0 for none. Connect data needs 1024.
	InCapsule int
	// MaxData is how many bytes one command may move by RDMA (MDTS); default 1 MiB.
	MaxData int
	// MaxDescriptors is how many descriptors a list in the capsule may have
	// (MSDBD); default 1, which means no lists.
	MaxDescriptors int
	// MaxPieces is how many local pieces a Fetch or RespondData may name; default 4.
	MaxPieces int
	// PlainSend answers without invalidating keys, even if the host asks for it.
	PlainSend bool
}

func (c *TargetConfig) maxData() int { return orDefault(c.MaxData, 1<<20) }
func (c *TargetConfig) pieces() int  { return orDefault(c.MaxPieces, 4) }

func orDefault(n, fallback int) int {
	if n > 0 {
		return n
	}
	return fallback
}

// commands is how many commands are in progress at most. A command keeps its
// context until its response is acknowledged, and by then the host may have
// sent the next one in the same queue entry: hence twice the depth.
func (c *TargetConfig) commands() int { return 2 * c.Depth }

// minReads is for how many RDMA READs there is room at least, where the device allows
// as many: a long transfer of a short queue takes more than one.
const minReads = 16

// sends is the send queue's depth: room for a response and a data transfer of
// each entry of the queue and for as many reads, and never less than one command can
// need. With all of that under way the host has no command left to send, and what
// it sends next acknowledges it; a response that finds no room waits. Every entry
// gets used in turn, so each costs memory.
func (c *TargetConfig) sends() int {
	oneCommand := max(1, c.MaxDescriptors) + c.pieces() + 1
	reads := min(c.Attrs.MaxReadsOut, max(minReads, c.Depth))
	n := max(2*c.Depth, 2*oneCommand) + reads
	if c.Attrs.MaxQueueDepth > 0 {
		n = min(n, c.Attrs.MaxQueueDepth)
	}
	return n
}

func (c *TargetConfig) maxSGE() int { return max(2, min(c.Attrs.MaxSGE, c.pieces())) }

// readSGE is how many elements an RDMA READ may fill.
func (c *TargetConfig) readSGE() int {
	if n := c.Attrs.MaxReadSGE; n > 0 {
		return min(n, c.maxSGE())
	}
	return c.maxSGE()
}

// Memory is how many bytes the queue maps and registers.
func (c *TargetConfig) Memory() int { return c.layout().size }

func (c *TargetConfig) layout() targetLayout { return makeTargetLayout(c) }

// A Handler executes the commands of one queue. A command belongs to it from
// Command until it calls Fetch, Respond or RespondData, and again from Fetched
// on. Every command that was given to Command comes back through Done exactly
// once, also when the queue fails in between.
type Handler interface {
	// Command gives a new command. One whose Wrong is an error has no data, and must be
	// answered with that.
	Command(c *Command)
	// Reused says that a new command has the identifier of one that the handler has. It
	// reports whether it gives the old one up, which then is not answered and comes back
	// through Done; otherwise the new one is wrong.
	Reused(old *Command) bool
	// Fetched says that the data asked for with Fetch is in place.
	Fetched(c *Command)
	// Slow says that others waited for room that this queue's RDMA READs had, whose data
	// does not come: for a while they have a smaller part of it, beside that of the others.
	Slow()
	// Done says that the queue has no more use for the command and the memory
	// given with it: the host has its response, or the queue has failed. The
	// context is used for another command afterwards.
	Done(c *Command)
	// Failed says that the queue has ended; commands that the handler has must
	// still be answered, to no effect, so that they come back.
	Failed(err error)
	// Closed says that all commands have come back. Free may be called now.
	Closed()
}

// A State is a queue's life, in order.
type State uint8

const (
	StateNew     State = iota // no queue pair
	StateLive                 // accepted or connected
	StateFailing              // ended, to be torn down in this turn
	StateDrained              // the queue pair is gone, commands are not all back
	StateClosed
)

func (s State) String() string {
	return [...]string{"new", "live", "failing", "drained", "closed"}[s]
}

// Errors that end a queue, beside those of rdmatransport.
var (
	ErrShortCapsule = errors.New("capsule is shorter than its fixed part")
	ErrProtocol     = errors.New("peer breaks the NVMe over RDMA protocol")
	ErrUndelivered  = errors.New("host responds but accepts nothing of what it is sent")
)

// A TransferError is a failed work request: why a queue ended.
type TransferError struct {
	Op     rdmatransport.Opcode
	Status rdmatransport.Status
}

func (e *TransferError) Error() string {
	return fmt.Sprintf("%s failed: %v", opName(e.Op), e.Status)
}

func opName(op rdmatransport.Opcode) string {
	switch op {
	case rdmatransport.OpSend:
		return "RDMA SEND"
	case rdmatransport.OpWrite:
		return "RDMA WRITE"
	case rdmatransport.OpRead:
		return "RDMA READ"
	case rdmatransport.OpRecv, rdmatransport.OpRecvWriteImm:
		return "receive"
	case rdmatransport.OpBindWindow:
		return "memory window bind"
	case rdmatransport.OpInvalidate:
		return "local invalidate"
	}
	return "work request"
}

// A TargetQueue is a controller's end of one queue.
type TargetQueue struct {
	cfg     TargetConfig
	handler Handler
	slot    shard.Slot
	qp      rdmatransport.QueuePair
	mover   rdmatransport.MovingQueuePair // qp, or nil
	state   State
	err     error

	memory   targetMemory
	arrivals *targetMemory // what capsules arrive in: memory, or that of Shared
	held     int           // receives of Shared with a capsule of ours
	limits   dataLimits
	inUse    identifiers

	commands []Command
	free     list.List[Command] // contexts
	active   int                // contexts in use
	backlog  backlog            // capsules that wait for a context, or for a turn

	party *Party
	turns list.Link[TargetQueue] // among the party's, while the backlog waits for turns
	run   int                    // commands that have begun in its turn

	responses list.List[Command] // answered, not posted
	fetches   list.List[Command] // data asked for, not all of it posted
	dead      list.List[Command] // to be given back

	send  sendBatch
	probe probeState
	recvs []rdmatransport.RecvWR
	reads readWindow

	progress progress

	entries int // submission queue size for SQHD
	sqhd    uint16
	noFlow  bool
}

// NewTarget maps and registers the memory of a queue.
func NewTarget(cfg TargetConfig) (*TargetQueue, error) {
	if cfg.Shard == nil || cfg.Domain == nil || cfg.Handler == nil || cfg.Depth < 1 {
		return nil, errors.New("fabric: TargetConfig lacks a required field")
	}
	if cfg.InCapsule < 0 || cfg.InCapsule%16 != 0 {
		return nil, fmt.Errorf("fabric: in-capsule data of %d bytes is not a multiple of 16", cfg.InCapsule)
	}
	q := &TargetQueue{
		cfg: cfg, handler: cfg.Handler, entries: cfg.Depth,
		limits: dataLimits{cfg.InCapsule, cfg.maxData(), cfg.MaxDescriptors},
	}
	if err := q.memory.init(&cfg); err != nil {
		return nil, err
	}
	q.arrivals = &q.memory
	if cfg.Shared != nil {
		q.arrivals = &cfg.Shared.memory
	}
	q.makeContexts()
	return q, nil
}

func (q *TargetQueue) makeContexts() {
	cfg := &q.cfg
	q.commands = make([]Command, cfg.commands())
	q.inUse.init(len(q.commands))
	for i := range q.commands {
		c := &q.commands[i]
		c.queue, c.Index = q, int32(i)
		c.data.remotes = make([]remote, 0, 1) // lists grow it
		c.pieces = make([]rdmatransport.SGE, 0, cfg.pieces())
		q.free.Push(c, &c.link)
	}
	q.backlog.init(cfg.Depth)
	if cfg.Shared == nil {
		q.recvs = make([]rdmatransport.RecvWR, 0, cfg.Depth)
	}
	q.send.init(cfg.Shard, cfg.sends(), cfg.maxSGE())
}

// Accept creates the queue pair, posts the receives and accepts the request.
// On an error the queue is unusable and the request unanswered.
func (q *TargetQueue) Accept(req rdmatransport.ConnRequest, p rdmatransport.ConnParams) error {
	cfg := &q.cfg
	cfg.Shard.Attach(&q.slot, (*targetConsumer)(q))
	qp, err := cfg.Domain.NewQueuePair(q.pairConfig())
	if err != nil {
		q.slot.Detach()
		return err
	}
	q.qp = qp
	q.mover, _ = qp.(rdmatransport.MovingQueuePair)
	if err = q.firstRecvs(); err == nil {
		var reply [capsule.AcceptDataSize]byte
		capsule.AcceptData{CRQSIZE: uint16(cfg.Depth)}.Encode(reply[:])
		p.PrivateData = reply[:]
		p.InitiatorDepth = min(req.InitiatorDepth(), cfg.Attrs.MaxReadsOut)
		err = req.Accept(qp, p)
	}
	if err != nil {
		q.slot.Detach()
		q.cfg.Shared.leave(qp)
		return errors.Join(err, qp.Close())
	}
	q.reads.init(q, max(1, p.InitiatorDepth))
	q.watchProgress()
	q.state = StateLive
	return nil
}

func (q *TargetQueue) pairConfig() rdmatransport.QPConfig {
	cfg := &q.cfg
	c := rdmatransport.QPConfig{
		CQ: cfg.Shard.CQ(), MaxSend: cfg.sends(), MaxRecv: cfg.Depth, MaxSGE: cfg.maxSGE(), NoRemote: true,
	}
	if cfg.Shared != nil {
		c.SharedRecv, c.EndID = cfg.Shared.queue, q.slot.ID(makeTag(tagCredit, 0))
	}
	return c
}

// firstRecvs posts all receives, or has the shared ones come to this queue.
func (q *TargetQueue) firstRecvs() error {
	if q.cfg.Shared != nil {
		q.cfg.Shared.takers[q.qp.QPN()] = q
		return nil
	}
	for i := range q.cfg.Depth {
		q.collectRecv(i)
	}
	return q.postRecvs()
}

// Free unmaps the queue's memory: after Closed, or if Accept failed or was
// never called.
func (q *TargetQueue) Free() error { return q.memory.close() }

// State is where in its life the queue is.
func (q *TargetQueue) State() State { return q.state }

// Err is why the queue ended, nil while it has not.
func (q *TargetQueue) Err() error { return q.err }

// QPN is the queue pair's number.
func (q *TargetQueue) QPN() rdmatransport.QPN { return q.qp.QPN() }

// RemoteAddr is the host's address.
func (q *TargetQueue) RemoteAddr() netip.AddrPort { return q.qp.RemoteAddr() }

// Active is how many commands have not come back through Done.
func (q *TargetQueue) Active() int { return q.active }

// Commands is how many contexts there are; each has an index below it.
func (q *TargetQueue) Commands() int { return len(q.commands) }

// SetEntries tells the submission queue's size (SQSIZE + 1 of Connect), round
// which SQHD runs.
func (q *TargetQueue) SetEntries(n int) {
	q.entries, q.sqhd = n, 0
}

// A probeState is what becomes of a probe.
type probeState uint8

const (
	probeNone   probeState = iota
	probeDue               // to be posted
	probePosted            // to be acknowledged
)

// Probe has the peer acknowledge an RDMA WRITE of no bytes, which changes nothing, and for
// which it looks at no key (IBTA volume 1, C9-88). If it does not the queue ends, as it does
// for every other work request. Nothing is posted where the send queue is nearly full, since
// what is in it has to be acknowledged too.
func (q *TargetQueue) Probe() {
	if q.state == StateLive && q.probe == probeNone {
		q.probe = probeDue
		q.slot.Flush()
	}
}

// DisableFlowControl makes responses carry FFFFh as SQHD (NVMe base 2.0, 6.3).
func (q *TargetQueue) DisableFlowControl() { q.noFlow = true }

// Find returns the command with that identifier that the handler has or is
// having data fetched for, or nil: for Abort.
func (q *TargetQueue) Find(id capsule.CID) *Command {
	for i := range q.commands {
		c := &q.commands[i]
		if c.SQE.CID == id && (c.state == commandHeld || c.state == commandFetching) {
			return c
		}
	}
	return nil
}

// Disconnect ends the queue. Responses not yet acknowledged may be lost: an
// orderly end waits for Done of the last command.
func (q *TargetQueue) Disconnect() { q.fail(rdmatransport.ErrDisconnected) }
