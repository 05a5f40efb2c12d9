package fabric

import (
	"errors"
	"fmt"
	"math/bits"
	"time"

	"github.com/nvmeof-go/nvmeof/capsule"
	"github.com/nvmeof-go/nvmeof/nvmeof/internal/list"
	"github.com/nvmeof-go/nvmeof/nvmeof/internal/shard"
	"github.com/nvmeof-go/nvmeof/rdmatransport"
)

// HostConfig describes a host's queue. A zero field takes the default, except
// where it is required.
type HostConfig struct {
	Shard  *shard.Shard         // required
	Domain rdmatransport.Domain // required
	Attrs  rdmatransport.Attrs  // required: the device's

	// Depth is the submission queue's size, SQSIZE + 1, at least 2. One command
	// less can be outstanding (NVMe base 2.0, 3.3.1.5). Required.
	Depth int
	// Reserved is how many of those entries are for requests alone that are urgent: see [Urgency].
	Reserved int
	// InCapsule is how many bytes of data the controller takes beside a command.
	InCapsule int
	// Descriptors is how many parts a command's data may have (MSDBD); default 1. Their
	// list, 16 bytes each, goes into the capsule.
	Descriptors int
	// Windows gives each command a key of its own that is dead before its buffer
	// goes back; needs Attrs.Windows, and Memory registered with windows.
	Windows bool
	// Timeout ends the queue when a command has no answer for that long; 0: never.
	Timeout time.Duration
	// Ending is called when the queue has ended, before any request comes back with err.
	Ending func(err error)
	// Ended is called when the queue has ended and all requests are back.
	Ended func(err error)
}

// ErrTimeout ends a queue whose controller does not answer.
var ErrTimeout = errors.New("command timed out")

// Urgency is of how many reserved entries of a queue a request may use the last one.
type Urgency uint8

// Urgencies. Requests of a lower one leave an entry for those of each higher one.
const (
	Usual    Urgency = iota
	Pressing         // what ends other commands
	Urgent           // what keeps the association, or ends it
)

// A Request is one command of a host and its outcome. It belongs to the queue
// from Submit until Done is called, and can be used again then.
type Request struct {
	// Command is filled by the caller except for CID, PSDT and SGL. The halves of a
	// fused operation are submitted one right after the other.
	Command capsule.Command

	// The data: Length bytes at Offset of Memory. 0 for none.
	Memory         *Memory
	Offset, Length int

	// More are further parts of the data, up to HostConfig.Descriptors with the first.
	More []Part

	// Source is what the request is for; nil stands for all that has no source.
	Source *Source

	// Urgency is how many of HostConfig.Reserved the request may use. With a Source of their own those of one urgency wait
	// for no other.
	Urgency Urgency

	// Patient requests have no timeout: Asynchronous Event Request.
	Patient bool

	// Whole says that the controller sends all of the data if it succeeds. Where the
	// provider counts what came, and it was less, Err is [ErrShortData].
	Whole bool

	// Done is called in the loop at the end, once per Submit.
	Done func(*Request)

	Completion capsule.Completion // if Err is nil
	// Err is why the queue ended; the command may have taken effect. ErrShortData and
	// ErrCanceled are the command's alone.
	Err error

	link list.Link[Request] // while it waits to be sent
}

// A Part is data of a request beyond the first: Length bytes at Offset of Memory.
type Part struct {
	Memory         *Memory
	Offset, Length int
}

// total is the length of all data.
func (r *Request) total() int {
	n := r.Length
	for i := range r.More {
		n += r.More[i].Length
	}
	return n
}

// Buf is the request's data, of several parts the first.
func (r *Request) Buf() []byte {
	if r.Length == 0 {
		return nil
	}
	return part(r.Memory.bytes, r.Offset, r.Length)
}

// writes reports whether data goes to the controller.
func (r *Request) writes() bool { return direction(&r.Command) == capsule.HostToController }

// A HostQueue is a host's end of one queue.
type HostQueue struct {
	cfg   HostConfig
	slot  shard.Slot
	qp    rdmatransport.QueuePair
	state State
	err   error

	slab   *shard.Slab
	region rdmatransport.MemoryRegion
	stride int // of the capsules

	slots    []hostSlot
	slotBits int
	free     []int32
	windows  int               // commands that may need an invalidation
	own      Source            // of requests that name none
	line     list.List[Source] // those with requests to be sent
	starting []int32           // slots whose commands go out in this turn
	kills    []int32           // slots whose windows are to be closed in this turn
	spares   spareWindows

	send    sendBatch
	recvs   []rdmatransport.RecvWR
	sges    []rdmatransport.SGE // of the receives
	credits creditRing
	inline  int // bytes that a SEND may copy at the post
	watch   shard.Timer
}

// A hostSlot is what the queue knows of an outstanding command.
type hostSlot struct {
	req        *Request
	cid        capsule.CID
	generation uint16
	retained   capsule.CID // given to no command, if retains
	retains    bool
	answered   bool
	sending    bool          // the provider may still read the capsule or its data
	keyed      bool          // the command has a key of its own, not known to be dead
	killing    bool          // our own invalidation is posted
	more       int           // keys of further parts that are not known to be dead
	admitted   int           // bytes taken from budget
	budget     *shard.Budget // nil: nothing is, or it was given back already
	source     *Source
	sentAt     int64
	window     rdmatransport.Window
	key        rdmatransport.RKey
}

const (
	hostReceiveStride = 64 // one cache line for each response
	maxHostDepth      = 1 << 12
)

// NewHost maps and registers the memory of a queue.
func NewHost(cfg HostConfig) (*HostQueue, error) {
	if cfg.Shard == nil || cfg.Domain == nil {
		return nil, errors.New("fabric: HostConfig lacks a required field")
	}
	if cfg.Depth < 2 || cfg.Depth > maxHostDepth {
		return nil, fmt.Errorf("fabric: queue of %d entries, want 2 to %d", cfg.Depth, maxHostDepth)
	}
	if cfg.Reserved < 0 || cfg.Reserved > cfg.Depth-2 {
		return nil, fmt.Errorf("fabric: %d reserved entries of a queue of %d", cfg.Reserved, cfg.Depth)
	}
	cfg.Windows = cfg.Windows && cfg.Attrs.Windows
	cfg.Descriptors = max(cfg.Descriptors, 1)
	q := &HostQueue{cfg: cfg}
	q.own.Open(q)
	q.spares.init(&cfg)
	if err := q.mapMemory(); err != nil {
		return nil, err
	}
	n := cfg.Depth - 1
	q.slots, q.slotBits = make([]hostSlot, n), bits.Len(uint(n-1))
	for i := n - 1; i >= 0; i-- {
		q.free = append(q.free, int32(i))
	}
	q.send.init(cfg.Shard, q.sends(), 2)
	q.credits.init(q.sends())
	q.recvs = make([]rdmatransport.RecvWR, 0, cfg.Depth)
	q.starting = make([]int32, 0, n)
	if cfg.Attrs.MaxInline >= capsule.CommandSize {
		q.inline = cfg.Attrs.MaxInline
	}
	q.watch.Func = q.checkTimeouts
	return q, nil
}

// sends is the send queue's depth: bind, SEND and invalidation of each command
// and what is not signaled yet.
func (q *HostQueue) sends() int {
	n := 3*q.cfg.Depth + 2*signalInterval + 2*len(q.spares.all)
	if limit := q.cfg.Attrs.MaxQueueDepth; limit > 0 {
		n = min(n, limit)
	}
	return n
}

func (q *HostQueue) mapMemory() error {
	q.stride = q.capsuleSize()
	size := q.cfg.Depth * (q.stride + hostReceiveStride)
	slab, err := shard.NewSlab(size)
	if err != nil {
		return err
	}
	region, err := q.cfg.Domain.Register(slab.Bytes(), rdmatransport.AccessLocalWrite)
	if err != nil {
		return errors.Join(err, slab.Close())
	}
	q.slab, q.region = slab, region
	for i := range q.cfg.Depth {
		off := q.cfg.Depth*q.stride + i*hostReceiveStride
		q.sges = append(q.sges, rdmatransport.SGE{Buf: part(slab.Bytes(), off, hostReceiveStride), LKey: region.LKey()})
	}
	return nil
}

// capsuleSize is a command with a list of as many descriptors as there may be.
func (q *HostQueue) capsuleSize() int {
	n := capsule.CommandSize
	if q.cfg.Descriptors > 1 {
		n += q.cfg.Descriptors * capsule.SGLSize
	}
	return (n + hostReceiveStride - 1) &^ (hostReceiveStride - 1)
}

// capsule is the buffer of a slot's command and its list.
func (q *HostQueue) capsule(i int32) []byte {
	return part(q.slab.Bytes(), int(i)*q.stride, q.stride)
}

// Open creates the queue pair and posts the receives. Device.Connect follows,
// then Established, or Disconnect if it failed.
func (q *HostQueue) Open() (rdmatransport.QueuePair, error) {
	windows := 0
	if q.cfg.Windows {
		windows = len(q.slots)
	}
	qp, err := q.cfg.Domain.NewQueuePair(rdmatransport.QPConfig{
		CQ: q.cfg.Shard.CQ(), MaxSend: q.sends(), MaxRecv: q.cfg.Depth, MaxSGE: 2, Windows: windows + len(q.spares.all),
	})
	if err != nil {
		return nil, err
	}
	q.cfg.Shard.Attach(&q.slot, (*hostConsumer)(q))
	q.qp = qp
	for i := range q.cfg.Depth {
		q.collectRecv(i)
	}
	err = q.postRecvs()
	for i := 0; i < windows && err == nil; i++ {
		q.slots[i].window, err = qp.NewWindow()
	}
	if err == nil {
		err = q.spares.open(qp)
	}
	if err != nil {
		q.slot.Detach()
		q.closeWindows()
		q.qp = nil
		return nil, errors.Join(err, qp.Close())
	}
	return qp, nil
}

// Established says that the connection is made: commands can be sent.
func (q *HostQueue) Established() {
	if q.state != StateNew {
		return
	}
	q.state = StateLive
	if q.cfg.Timeout > 0 {
		q.cfg.Shard.SetTimer(&q.watch, q.cfg.Timeout/timeoutChecks)
	}
	q.slot.Flush()
}

// RequestData is what the host attaches to its connection request.
func (q *HostQueue) RequestData(id capsule.QID, cntlid capsule.ControllerID) []byte {
	b := make([]byte, capsule.RequestDataSize)
	capsule.RequestData{
		QID: id, HRQSIZE: uint16(q.cfg.Depth), HSQSIZE: uint16(q.cfg.Depth - 1), CNTLID: cntlid,
	}.Encode(b)
	return b
}

// SetInCapsule changes how many bytes of data go into capsules, which a host
// learns from Identify data after it has connected.
func (q *HostQueue) SetInCapsule(n int) { q.cfg.InCapsule = n }

// Free unmaps the queue's memory: after Ended, or if Open failed or was never
// called.
func (q *HostQueue) Free() error {
	if q.slab == nil {
		return nil
	}
	err := errors.Join(q.region.Deregister(), q.slab.Close())
	q.slab = nil
	return err
}

// State is where in its life the queue is.
func (q *HostQueue) State() State { return q.state }

// Err is why the queue ended, nil while it has not.
func (q *HostQueue) Err() error { return q.err }

// Outstanding is how many requests have been sent and not come back.
func (q *HostQueue) Outstanding() int { return len(q.slots) - len(q.free) }

// Submit takes a request: it is sent at the end of the turn, or when the queue
// has room. The error is why the queue has ended; Done is not called then.
func (q *HostQueue) Submit(r *Request) error {
	if q.state >= StateFailing {
		return q.err
	}
	r.Err, r.Completion = nil, capsule.Completion{}
	q.sourceOf(r).push(r)
	if q.state == StateLive {
		q.slot.Flush()
	}
	return nil
}

func (q *HostQueue) sourceOf(r *Request) *Source {
	if r.Source == nil {
		return &q.own
	}
	return r.Source
}

// Disconnect ends the queue; requests come back with an error.
func (q *HostQueue) Disconnect() { q.fail(rdmatransport.ErrDisconnected) }

// Fail ends the queue for a reason that the caller found.
func (q *HostQueue) Fail(err error) { q.fail(err) }
