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

// HostConfig configures a host's queue. A zero field selects the default, unless the field is required.
type HostConfig struct {
	Shard  *shard.Shard         // required
	Domain rdmatransport.Domain // required
	Attrs  rdmatransport.Attrs  // required; those of the device

	// Depth is the submission queue's size, SQSIZE + 1, at least 2. Depth - 1 commands can be outstanding (NVMe base
	// 2.0, 3.3.1.5). Required.
	Depth int
	// Reserved is how many of those entries are reserved for urgent requests: see [Urgency].
	Reserved int
	// InCapsule is how many bytes of data the controller accepts after a command in its capsule.
	InCapsule int
	// Descriptors is how many parts a command's data may have (MSDBD); default 1. Their list, 16 bytes for each part,
	// goes into the capsule.
	Descriptors int
	// Windows gives each command a key of its own that is invalid before its buffer goes back to the caller. It needs
	// Attrs.Windows, and Memory registered with windows.
	Windows bool
	// Timeout ends the queue when a command has had no response for that long; 0: never.
	Timeout time.Duration
	// Ending is called when the queue has ended, before any request is returned with err.
	Ending func(err error)
	// Ended is called when the queue has ended and all requests are returned.
	Ended func(err error)
}

// ErrTimeout ends a queue whose controller does not respond.
var ErrTimeout = errors.New("command timed out")

// Urgency says how many reserved entries of a queue a request may use.
type Urgency uint8

// Urgencies in ascending order. Requests of one urgency leave an entry free for each higher one.
const (
	Usual    Urgency = iota
	Pressing         // for commands that end other commands
	Urgent           // for commands that keep the association alive, or end it
)

// A Request is a command of a host and its result. It belongs to the queue from Submit until Done is called, and can be
// reused then.
type Request struct {
	// Command is filled in by the caller, except for CID, PSDT and SGL. The two commands of a fused operation are
	// submitted in immediate succession.
	Command capsule.Command

	// The data is Length bytes at Offset of Memory; 0 for no data.
	Memory         *Memory
	Offset, Length int

	// More are further parts of the data. With the first one there may be HostConfig.Descriptors parts.
	More []Part

	// Source is the source of the request; nil selects the queue's own, for all requests without a source.
	Source *Source

	// Urgency says how many entries of HostConfig.Reserved the request may use. If the requests of an urgency have
	// their own Source, they wait for no other request.
	Urgency Urgency

	// Patient requests have no timeout: Asynchronous Event Requests.
	Patient bool

	// Whole says that a successful controller sends all of the data. If the provider counts received bytes and fewer
	// arrived, Err is [ErrShortData].
	Whole bool

	// Done is called in the loop at the end, once per Submit.
	Done func(*Request)

	Completion capsule.Completion // valid if Err is nil
	// Err is the reason why the queue ended; the command may have been executed. ErrShortData and ErrCanceled concern
	// only this command.
	Err error

	link list.Link[Request] // while it waits to be sent
}

// A Part is a further part of a request's data: Length bytes at Offset of Memory.
type Part struct {
	Memory         *Memory
	Offset, Length int
}

// total returns the length of all data.
func (r *Request) total() int {
	n := r.Length
	for i := range r.More {
		n += r.More[i].Length
	}
	return n
}

// Buf returns the request's data, or its first part if there are several.
func (r *Request) Buf() []byte {
	if r.Length == 0 {
		return nil
	}
	return part(r.Memory.bytes, r.Offset, r.Length)
}

// writes reports whether data goes to the controller.
func (r *Request) writes() bool { return direction(&r.Command) == capsule.HostToController }

// A HostQueue is the host's end of a queue.
type HostQueue struct {
	cfg   HostConfig
	slot  shard.Slot
	qp    rdmatransport.QueuePair
	state State
	err   error

	slab   *shard.Slab
	region rdmatransport.MemoryRegion
	stride int // from one capsule to the next

	slots    []hostSlot
	slotBits int
	free     []int32
	windows  int               // commands that may need an invalidation
	own      Source            // for requests without a source
	line     list.List[Source] // sources with requests to be sent
	starting []int32           // slots whose commands are sent in this turn
	kills    []int32           // slots whose windows are to be invalidated in this turn
	spares   spareWindows

	send    sendBatch
	recvs   []rdmatransport.RecvWR
	sges    []rdmatransport.SGE // of the receives
	credits creditRing
	inline  int // bytes that a SEND may copy when it is posted
	watch   shard.Timer
}

// A hostSlot is the state of an outstanding command.
type hostSlot struct {
	req        *Request
	cid        capsule.CID
	generation uint16
	retained   capsule.CID // given to no other command while retains is set
	retains    bool
	answered   bool
	sending    bool          // the provider may still read the capsule or its data
	keyed      bool          // the command has a key of its own that is not known to be invalid
	killing    bool          // our own invalidation is posted
	more       int           // keys of further parts that are not known to be invalid
	admitted   int           // bytes taken from budget
	budget     *shard.Budget // nil: nothing is taken, or it was given back already
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

// sends returns the depth of the send queue: bind, SEND and invalidation of each command, and what is not signaled yet.
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

// capsuleSize returns the size of a command with the longest list of descriptors.
func (q *HostQueue) capsuleSize() int {
	n := capsule.CommandSize
	if q.cfg.Descriptors > 1 {
		n += q.cfg.Descriptors * capsule.SGLSize
	}
	return (n + hostReceiveStride - 1) &^ (hostReceiveStride - 1)
}

// capsule returns the buffer for a slot's command and its list.
func (q *HostQueue) capsule(i int32) []byte {
	return part(q.slab.Bytes(), int(i)*q.stride, q.stride)
}

// Open creates the queue pair and posts the receives. The caller then calls Device.Connect, followed by Established, or
// by Disconnect if Connect failed.
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

// Established tells the queue that it is connected, so that commands can be sent.
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

// RequestData returns the private data of the host's connection request.
func (q *HostQueue) RequestData(id capsule.QID, cntlid capsule.ControllerID) []byte {
	b := make([]byte, capsule.RequestDataSize)
	capsule.RequestData{
		QID: id, HRQSIZE: uint16(q.cfg.Depth), HSQSIZE: uint16(q.cfg.Depth - 1), CNTLID: cntlid,
	}.Encode(b)
	return b
}

// SetInCapsule changes how many bytes of data go into capsules. A host learns this from Identify data after it has
// connected.
func (q *HostQueue) SetInCapsule(n int) { q.cfg.InCapsule = n }

// Free unmaps the queue's memory. Call it after Ended, or if Open failed or was never called.
func (q *HostQueue) Free() error {
	if q.slab == nil {
		return nil
	}
	err := errors.Join(q.region.Deregister(), q.slab.Close())
	q.slab = nil
	return err
}

// State returns the state of the queue.
func (q *HostQueue) State() State { return q.state }

// Err returns the reason why the queue ended, or nil if it has not ended.
func (q *HostQueue) Err() error { return q.err }

// Outstanding returns how many requests have been sent and not been returned.
func (q *HostQueue) Outstanding() int { return len(q.slots) - len(q.free) }

// Submit queues a request, which is sent at the end of the turn or when the queue has room. The error is the reason why
// the queue has ended; Done is not called then.
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

// Disconnect ends the queue; requests are returned with an error.
func (q *HostQueue) Disconnect() { q.fail(rdmatransport.ErrDisconnected) }

// Fail ends the queue with an error that the caller found.
func (q *HostQueue) Fail(err error) { q.fail(err) }
