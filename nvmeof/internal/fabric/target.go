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

// TargetConfig configures a controller's queue. A zero field selects the default, unless the field is required.
type TargetConfig struct {
	Shard   *shard.Shard         // required
	Domain  rdmatransport.Domain // required
	Attrs   rdmatransport.Attrs  // required; those of the device
	Handler Handler              // required

	// Depth is the number of receives: HSQSIZE + 1. Required.
	Depth int
	// Shared are receives for all queues of the same shard, domain and InCapsule; nil: the queue has its own. The queue
	// ends if its host has more than Depth of them in use.
	Shared *SharedReceives
	// Dispatcher is the shard's dispatcher; nil: commands begin as they arrive. Commands of an Admin queue, most of
	// which are Keep Alive, do not make other parties take turns.
	Dispatcher *Dispatcher
	Admin      bool
	// InCapsule is how many bytes of data fit into a capsule after the command, a multiple of 16; 0 for none. Connect
	// data needs 1024.
	InCapsule int
	// MaxData is how many bytes a command may transfer (MDTS); default 1 MiB.
	MaxData int
	// MaxDescriptors is how many descriptors a list in the capsule may have (MSDBD); default 1, which means no lists.
	MaxDescriptors int
	// MaxPieces is the maximum number of pieces of local memory of a Fetch or RespondData; default 4.
	MaxPieces int
	// PlainSend responds without invalidating keys, even if the host requests it.
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

// commands returns the maximum number of commands in progress. A command keeps its context until its response is
// acknowledged. By then the host may have sent the next command in the same queue entry: hence twice the depth.
func (c *TargetConfig) commands() int { return 2 * c.Depth }

// minReads is the minimum room for RDMA READs, where the device allows as many: a long transfer on a short queue takes
// several.
const minReads = 16

// sends returns the depth of the send queue. It has room for a response and a data transfer of each queue entry and for
// as many reads, and at least for what one command can need. When all of these are outstanding, the host has no command
// left to send, and its next packet acknowledges them; a response that finds no room waits. Every entry is used in
// turn, so each costs memory.
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

// readSGE returns the maximum number of scatter list elements of an RDMA READ.
func (c *TargetConfig) readSGE() int {
	if n := c.Attrs.MaxReadSGE; n > 0 {
		return min(n, c.maxSGE())
	}
	return c.maxSGE()
}

// Memory returns how many bytes the queue maps and registers.
func (c *TargetConfig) Memory() int { return c.layout().size }

func (c *TargetConfig) layout() targetLayout { return makeTargetLayout(c) }

// A Handler executes the commands of one queue. It owns a command from Command until it calls Fetch, Respond or
// RespondData, and again from Fetched on. Every command that was passed to Command is returned through Done exactly
// once, even if the queue fails in between.
type Handler interface {
	// Command passes a new command to the handler. If Wrong returns an error, the command has no data and must be
	// answered with that status.
	Command(c *Command)
	// Reused says that a new command has the identifier of one that the handler owns. The handler returns true to give
	// up the old one, which is then not answered and is returned through Done. Otherwise the new command is wrong.
	Reused(old *Command) bool
	// Fetched says that the data requested with Fetch is in place.
	Fetched(c *Command)
	// Slow says that other queues waited for room that this queue's RDMA READs held without receiving data. For a while
	// its reads take from a smaller, separate budget.
	Slow()
	// Done returns a command: the host has its response, or the queue has failed. The queue no longer uses the command
	// or the memory passed with it. The context is then reused for another command.
	Done(c *Command)
	// Failed says that the queue has ended. The handler must still answer the commands that it owns, so that they are
	// returned; nothing is sent.
	Failed(err error)
	// Closed says that all commands have been returned. Free may be called now.
	Closed()
}

// A State is a state of a queue, in the order of its life.
type State uint8

const (
	StateNew     State = iota // no queue pair
	StateLive                 // accepted or connected
	StateFailing              // ended, to be torn down in this turn
	StateDrained              // the queue pair is closed, some commands are not returned
	StateClosed
)

func (s State) String() string {
	return [...]string{"new", "live", "failing", "drained", "closed"}[s]
}

// Errors that end a queue, in addition to those of rdmatransport.
var (
	ErrShortCapsule = errors.New("capsule is shorter than its fixed part")
	ErrProtocol     = errors.New("peer breaks the NVMe over RDMA protocol")
	ErrUndelivered  = errors.New("host responds but accepts nothing of what it is sent")
)

// A TransferError is the failure of a work request, which ends the queue.
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

// A TargetQueue is the controller's end of a queue.
type TargetQueue struct {
	cfg     TargetConfig
	handler Handler
	slot    shard.Slot
	qp      rdmatransport.QueuePair
	mover   rdmatransport.MovingQueuePair // qp, or nil
	state   State
	err     error

	memory   targetMemory
	arrivals *targetMemory // the buffers of arriving capsules: memory, or that of Shared
	held     int           // receives of Shared that hold our capsules
	limits   dataLimits
	inUse    identifiers

	commands []Command
	free     list.List[Command] // contexts
	active   int                // contexts in use
	backlog  backlog            // capsules that wait for a context or for a turn

	party *Party
	turns list.Link[TargetQueue] // among the party's, while the backlog waits for turns
	run   int                    // commands that have begun in its turn

	responses list.List[Command] // answered, not posted
	fetches   list.List[Command] // data requested, not all READs posted
	dead      list.List[Command] // to be returned to the handler

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
		c.data.remotes = make([]remote, 0, 1) // grows for lists
		c.pieces = make([]rdmatransport.SGE, 0, cfg.pieces())
		q.free.Push(c, &c.link)
	}
	q.backlog.init(cfg.Depth)
	if cfg.Shared == nil {
		q.recvs = make([]rdmatransport.RecvWR, 0, cfg.Depth)
	}
	q.send.init(cfg.Shard, cfg.sends(), cfg.maxSGE())
}

// rnrRetryForever lets the host's sends be retried without limit. The count in a REP is that of the active side (IBTA
// volume 1, 12.6.8), and a host that finds no receive here, since all are in use, must not lose its queue.
const rnrRetryForever = 7

// Accept creates the queue pair, posts the receives and accepts the request. After an error the queue is unusable and
// the request is not answered.
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
		p.RNRRetryCount = rnrRetryForever
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
	c := q.cfg.pairConfig()
	if q.cfg.Shared != nil {
		c.EndID = q.slot.ID(makeTag(tagCredit, 0))
	}
	return c
}

// pairConfig returns the configuration of the queue pair, but for EndID.
func (c *TargetConfig) pairConfig() rdmatransport.QPConfig {
	p := rdmatransport.QPConfig{
		CQ: c.Shard.CQ(), MaxSend: c.sends(), MaxRecv: c.Depth, MaxSGE: c.maxSGE(), NoRemote: true,
	}
	if c.Shared != nil {
		p.SharedRecv = c.Shared.queue
	}
	return p
}

// firstRecvs posts all receives, or makes the shared ones available to this queue.
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

// Free unmaps the queue's memory. Call it after Closed, or if Accept failed or was never called.
func (q *TargetQueue) Free() error { return q.memory.close() }

// State returns the state of the queue.
func (q *TargetQueue) State() State { return q.state }

// Err returns the reason why the queue ended, or nil if it has not ended.
func (q *TargetQueue) Err() error { return q.err }

// QPN returns the queue pair's number.
func (q *TargetQueue) QPN() rdmatransport.QPN { return q.qp.QPN() }

// RemoteAddr returns the host's address.
func (q *TargetQueue) RemoteAddr() netip.AddrPort { return q.qp.RemoteAddr() }

// Active returns how many commands have not been returned through Done.
func (q *TargetQueue) Active() int { return q.active }

// Commands returns the number of contexts; the index of each is below it.
func (q *TargetQueue) Commands() int { return len(q.commands) }

// SetEntries sets the submission queue's size (SQSIZE + 1 of Connect), at which SQHD wraps around.
func (q *TargetQueue) SetEntries(n int) {
	q.entries, q.sqhd = n, 0
}

// A probeState is the state of a probe.
type probeState uint8

const (
	probeNone   probeState = iota
	probeDue               // to be posted
	probePosted            // to be acknowledged
)

// Probe makes the peer acknowledge an RDMA WRITE of length zero, which changes nothing and whose R_Key is not checked
// (IBTA volume 1, C9-88). If the peer does not acknowledge it, the queue ends, as with any other work request. Nothing
// is posted if the send queue is nearly full, since its work requests must be acknowledged too.
func (q *TargetQueue) Probe() {
	if q.state == StateLive && q.probe == probeNone {
		q.probe = probeDue
		q.slot.Flush()
	}
}

// DisableFlowControl makes responses carry FFFFh as SQHD (NVMe base 2.0, 6.3).
func (q *TargetQueue) DisableFlowControl() { q.noFlow = true }

// Find returns the command with that identifier that the handler owns or for which it fetches data, or nil. It is for
// Abort.
func (q *TargetQueue) Find(id capsule.CID) *Command {
	for i := range q.commands {
		c := &q.commands[i]
		if c.SQE.CID == id && (c.state == commandHeld || c.state == commandFetching) {
			return c
		}
	}
	return nil
}

// Disconnect ends the queue. Unacknowledged responses may be lost: for an orderly end wait for Done of the last
// command.
func (q *TargetQueue) Disconnect() { q.fail(rdmatransport.ErrDisconnected) }
