package nbd

import (
	"errors"
	"fmt"
	"time"

	"golang.org/x/sys/unix"

	"github.com/nvmeof-go/nvmeof/backend"
	"github.com/nvmeof-go/nvmeof/nvmeof/internal/shard"
	"github.com/nvmeof-go/nvmeof/nvmeof/nbd/internal/wire"
)

const (
	depth       = 256      // maximum requests of a client in flight
	inputSize   = 64 << 10 // bytes read at a time: the store begins with some while others are read
	socketBytes = 4 << 20  // requested socket buffer size; the kernel may grant less
)

// A conn is one client. It is owned by the loop.
type conn struct {
	loop     *loop
	fd       int
	interest uint32 // events registered with epoll
	readable bool
	blocked  bool // the socket's send buffer is full
	skipped  int  // turns since the last read

	// State of the handshake; nil afterwards.
	negotiation *wire.Negotiation
	deadline    time.Time

	in         []byte // in[head:tail] has been read and not parsed
	head, tail int
	out        []byte // sent before replies

	// State of the transmission phase.
	export     *export
	limits     wire.Limits
	structured bool
	gate       *gate
	queue      backend.Queue
	watch      backend.Watchable // the queue, if it implements the interface
	changing   int               // changes admitted by the gate that have not ended
	reported   *shard.Event      // set by the queue's notify; nil unless an export is open
	reportedIn bool              // reported was seen to be set
	memory     Memory
	pages      pages
	slots      []request
	idle       []uint16
	batch      []backend.Request
	asked      uint64 // number of operations passed to the store so far
	submitted  int    // number of operations that the queue has
	unpolled   bool   // the queue was not polled since the last Submit
	replies    replies

	incoming *request // request whose data is being read
	got      int      // bytes of its data that have been read
	discard  int      // bytes of rejected writes' data still to be read
	stalled  bool     // no slot or memory for the next request
	fresh    bool     // no change has begun since the last read from the socket

	ending   bool // no more requests are read
	flushing bool // the disk must be flushed at the end
	dead     bool // the client is gone: nothing can be sent to it
}

func newConn(l *loop, fd int) *conn {
	c := &conn{loop: l, fd: fd, interest: unix.EPOLLIN, readable: true}
	if err := l.watch(fd, c.interest); err != nil {
		l.say("%v", err)
		_ = unix.Close(fd) // it was never used
		return nil
	}
	l.owner[int32(fd)] = c
	c.negotiation = wire.NewNegotiation(catalog{c})
	c.deadline = time.Now().Add(l.server.cfg.handshake())
	c.in = make([]byte, 16<<10)
	c.out = c.negotiation.Greeting(nil)
	return c
}

// A catalog answers the handshake's questions about exports.
type catalog struct{ c *conn }

func (k catalog) Names() (names []string) {
	for _, e := range *k.c.loop.server.exports.Load() {
		names = append(names, e.disk.Name)
	}
	return names
}

func (k catalog) Find(name string) (wire.Export, bool) {
	e := k.c.loop.server.find(name)
	if e == nil {
		return wire.Export{}, false
	}
	return e.now(), true
}

func (k catalog) Open(name string) (wire.Export, error) {
	e := k.c.loop.server.find(name)
	if e == nil {
		return wire.Export{}, errors.New("export is gone")
	}
	return e.now(), k.admit(e)
}

// admit opens an export for the client, unless its disk hangs or the remaining places are for other disks.
func (k catalog) admit(e *export) error {
	if n := k.c.loop.gone(e.disk.Name); n >= k.c.loop.server.cfg.gone() {
		k.c.loop.server.counters.stuck.Add(1)
		return fmt.Errorf("disk does not answer: requests of %d clients that have gone are not completed", n)
	}
	if !k.c.loop.spares(e.disk.Name) {
		k.c.loop.server.counters.share.Add(1)
		k.c.loop.sayOfClient("a client of disk %s is refused: the remaining places are reserved for the other disks", e.disk.Name)
		return errors.New("disk has its maximum number of clients")
	}
	return k.c.open(e)
}

// open prepares the transmission phase.
func (c *conn) open(e *export) (err error) {
	defer func() {
		if err != nil {
			err = errors.Join(err, c.closeExport())
		}
	}()
	c.export = e
	if c.reported, err = shard.NewEvent(); err != nil {
		return err
	}
	queue, err := e.disk.Store.NewQueue(depth, c.reported.Set)
	if err != nil {
		return fmt.Errorf("disk cannot be used now: %w", err)
	}
	c.queue = queue
	if err := c.addEvents(); err != nil {
		return err
	}
	memory, err := newMemory(&e.disk, e.memory)
	if err != nil {
		return fmt.Errorf("memory for data: %w", err)
	}
	c.memory = memory
	if u, ok := c.queue.(backend.MemoryUser); ok {
		u.UseMemory(c.memory.Bytes(), len(c.memory.Bytes()))
	}
	c.pages = newPages(len(c.memory.Bytes()))
	c.gate = c.loop.gate(e.disk.Name)
	c.slots = make([]request, depth)
	c.idle = make([]uint16, 0, depth)
	for i := range c.slots {
		c.slots[i].slot = uint16(i)
		c.idle = append(c.idle, uint16(depth-1-i))
	}
	c.batch = make([]backend.Request, 0, depth)
	in := make([]byte, inputSize)
	c.head, c.tail, c.in = 0, copy(in, c.in[c.head:c.tail]), in
	// Smaller buffers than requested are acceptable.
	_ = unix.SetsockoptInt(c.fd, unix.SOL_SOCKET, unix.SO_SNDBUF, socketBytes)
	_ = unix.SetsockoptInt(c.fd, unix.SOL_SOCKET, unix.SO_RCVBUF, socketBytes)
	return nil
}

// addEvents makes completed operations wake the loop.
func (c *conn) addEvents() error {
	if err := c.listenTo(c.reported.Descriptor()); err != nil {
		return err
	}
	w, ok := c.queue.(backend.Watchable)
	if !ok {
		return nil
	}
	fd := w.Descriptor()
	if fd < 0 {
		return nil
	}
	c.watch = w
	return c.listenTo(fd)
}

func (c *conn) listenTo(fd int) error {
	if err := c.loop.watch(fd, unix.EPOLLIN); err != nil {
		return err
	}
	c.loop.owner[int32(fd)] = c
	return nil
}

// newMemory allocates memory that the disk's store can transfer without a copy, if the disk offers it, or any memory.
func newMemory(d *Disk, size int) (Memory, error) {
	if d.NewMemory != nil {
		return d.NewMemory(size)
	}
	return shard.NewSlab(size)
}

// agree enters the transmission phase.
func (c *conn) agree() {
	n := c.negotiation
	c.negotiation = nil
	c.structured = n.Structured
	info := c.export.disk.Store.Info()
	c.limits = wire.Limits{Size: n.Export.Size, ReadOnly: info.ReadOnly, Block: 1, MaxPayload: maxRequest, Allocation: n.Allocation}
	if n.BlockSize {
		c.limits.Block = n.Export.MinBlock
	}
}

// turn advances the client's requests. It reports whether there was anything to do.
func (c *conn) turn(rs []backend.Result) (useful bool) {
	done := 0
	if c.submitted > 0 {
		done = c.poll(rs)
	}
	// Replies are sent together: more of them may be available in a moment.
	if (done == 0 || c.submitted == 0 || c.replies.len() >= replyBatch) && c.pending() && !c.blocked {
		c.send()
		useful = true
		c.skipped = skipReads
	}
	if c.wantsToRead() && c.receive() {
		useful = true
	}
	c.submit()
	return useful || done > 0
}

const (
	// replyBatch is the number of replies at which they are sent without waiting for more.
	replyBatch = 32
	// skipReads is how many turns pass between reads that find nothing, while the store has operations.
	skipReads = 8
)

// wantsToRead reports whether a read from the socket is worth its system call.
func (c *conn) wantsToRead() bool {
	if c.ending || c.dead || c.stalled && !c.unstall() {
		return false
	}
	if len(c.loop.conns) > few && !c.readable {
		return false
	}
	if c.submitted == 0 {
		return true
	}
	if c.skipped++; c.skipped < skipReads {
		return false
	}
	c.skipped = 0
	return true
}

// ready handles a descriptor that is ready.
func (c *conn) ready(fd int, events uint32) {
	switch {
	case fd == c.fd && events&unix.EPOLLHUP != 0 && (c.ending || c.stalled): // no read will notice it
		c.hungUp()
	case fd == c.fd:
		c.readable, c.blocked = true, false
		c.skipped = skipReads
	case c.reported != nil && fd == c.reported.Descriptor():
		c.reportedIn = true
	default:
		if c.submitted == 0 && c.watch != nil {
			c.watch.Arm() // a late event: clears it
		}
	}
}

// arm prepares for a sleep of the loop. It returns false if the loop must not sleep.
func (c *conn) arm() bool {
	if c.reportedIn {
		c.reportedIn = false
		c.reported.Clear()
		return false // there are results to poll for
	}
	if c.unpolled { // operations that ended already will not wake the loop
		return false
	}
	if c.submitted > 0 && c.watch != nil && !c.watch.Arm() {
		return false
	}
	mask := uint32(0)
	if !c.ending && !c.stalled {
		mask |= unix.EPOLLIN
	}
	if c.blocked {
		mask |= unix.EPOLLOUT
	}
	if mask != c.interest && !c.dead {
		c.interest = mask
		e := unix.EpollEvent{Events: mask, Fd: int32(c.fd)}
		if err := unix.EpollCtl(c.loop.epoll, unix.EPOLL_CTL_MOD, c.fd, &e); err != nil {
			c.loop.say("nbd: epoll: %v", err)
			c.abandon()
			return false
		}
	}
	return true
}

// stop lets the requests that have begun end, then flushes the disk.
func (c *conn) stop() {
	c.flushing = c.queue != nil && !c.ending && !c.limits.ReadOnly && c.negotiation == nil
	c.ending = true
}

// hungUp handles a client that has closed its socket, with or without NBD_CMD_DISC.
func (c *conn) hungUp() {
	if c.ending {
		c.abandon()
		return
	}
	c.lost()
}

// abandon handles a client that nothing can be sent to any more.
func (c *conn) abandon() {
	if c.dead {
		return
	}
	c.ending, c.dead = true, true
	c.out = c.out[:0]
	c.dropReplies()
	if c.gate != nil {
		c.gate.abandon(c)
	}
	_ = unix.EpollCtl(c.loop.epoll, unix.EPOLL_CTL_DEL, c.fd, nil) // it may be removed already
}

// over reports whether all requests of an ending client have ended, and nothing is left to be sent.
func (c *conn) over() bool {
	if !c.ending {
		return false
	}
	if c.incoming != nil { // the rest of its data will not arrive
		c.release(c.incoming)
		c.incoming = nil
	}
	if len(c.idle) < len(c.slots) || c.pending() && !c.dead {
		return false
	}
	if c.flushing {
		c.flushing = false
		c.flush()
		c.submit()
		return false
	}
	return true
}

// pending reports whether there is something to send.
func (c *conn) pending() bool { return len(c.out) > 0 || c.replies.len() > 0 }

// close frees the client's resources. It waits for operations that the store has begun.
func (c *conn) close() error {
	delete(c.loop.owner, int32(c.fd))
	return errors.Join(c.closeExport(), unix.Close(c.fd)) // which removes it from epoll
}

// closeExport undoes open, even if open failed halfway.
func (c *conn) closeExport() error {
	var errs []error
	for fd, owner := range c.loop.owner {
		if owner == c && int(fd) != c.fd {
			delete(c.loop.owner, fd)
			errs = append(errs, unix.EpollCtl(c.loop.epoll, unix.EPOLL_CTL_DEL, int(fd), nil))
		}
	}
	if c.queue != nil {
		errs = append(errs, c.queue.Close())
	}
	if c.memory != nil {
		errs = append(errs, c.memory.Close())
	}
	if c.reported != nil {
		errs = append(errs, c.reported.Close())
	}
	c.queue, c.watch, c.memory, c.reported = nil, nil, nil, nil
	return errors.Join(errs...)
}
