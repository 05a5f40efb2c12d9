package nbd

import (
	"unsafe"

	"golang.org/x/sys/unix"

	"github.com/nvmeof-go/nvmeof/nvmeof/nbd/internal/wire"
)

// receive reads once from the socket and begins all complete requests. It reports whether there was input.
func (c *conn) receive() bool {
	if c.head > 0 { // less than a header remains
		c.tail = copy(c.in, c.in[c.head:c.tail])
		c.head = 0
	}
	var data []byte
	if c.incoming != nil {
		data = c.incoming.payload()[c.got:]
	}
	n, errno := readv(c.fd, data, c.in[c.tail:])
	switch {
	case errno == unix.EAGAIN || errno == unix.EINTR:
		c.readable = false
		return false
	case errno != 0:
		c.lost()
		return true
	case n == 0:
		c.endOfInput()
		return true
	}
	if n == len(data)+len(c.in)-c.tail {
		c.skipped = skipReads // there is more
	}
	c.fresh = true
	direct := min(n, len(data))
	c.got += direct
	c.tail += n - direct
	if c.incoming != nil && direct == len(data) {
		c.arrived()
	}
	c.parse()
	return true
}

// endOfInput handles the end of the client's input.
func (c *conn) endOfInput() {
	if c.negotiation == nil {
		c.lost()
		return
	}
	c.abandon()
}

func (c *conn) lost() {
	c.loop.server.counters.lost.Add(1)
	c.abandon()
}

// readv reads into a and then b without blocking.
func readv(fd int, a, b []byte) (int, unix.Errno) {
	var iov [2]unix.Iovec
	n := 0
	for _, p := range [2][]byte{a, b} {
		if len(p) > 0 {
			iov[n].Base = unsafe.SliceData(p)
			iov[n].SetLen(len(p))
			n++
		}
	}
	got, _, errno := unix.RawSyscall(unix.SYS_READV, uintptr(fd), uintptr(unsafe.Pointer(&iov)), uintptr(n))
	return int(got), errno
}

// parse parses the input as far as it is complete.
func (c *conn) parse() {
	if c.negotiation != nil {
		c.negotiate()
	}
	for c.negotiation == nil && !c.ending && c.parseOne() {
	}
}

func (c *conn) negotiate() {
	n := c.negotiation
	used, out, err := n.Feed(c.in[c.head:c.tail], c.out)
	c.head += used
	c.out = out
	switch {
	case err != nil:
		c.loop.server.counters.badHandshake.Add(1)
		c.loop.sayOfClient("a client is disconnected in the handshake: %v", err)
		c.ending = true
	case n.State() == wire.Agreed:
		c.agree()
	case n.State() == wire.Ended:
		c.ending = true
	case used == 0 && c.tail-c.head == len(c.in): // cannot happen: options are shorter
		c.ending = true
	}
}

// parseOne parses one request, or part of its data. It returns false if more input is needed or none is wanted.
func (c *conn) parseOne() bool {
	rest := c.in[c.head:c.tail]
	if c.discard > 0 {
		n := min(c.discard, len(rest))
		c.discard -= n
		c.head += n
		return c.discard == 0
	}
	if c.incoming != nil || len(rest) < wire.RequestSize {
		return false
	}
	head, err := wire.DecodeRequest(rest)
	if err != nil {
		c.loop.server.counters.badRequests.Add(1)
		c.loop.sayOfClient("a client is disconnected: %v instead of a request", err)
		c.ending = true
		return false
	}
	if head.Command == wire.CmdDisc {
		c.ending = true
		return false
	}
	r := c.admit(&head)
	if r == nil {
		c.stalled = true
		return false
	}
	c.head += wire.RequestSize
	c.loop.server.counters.requests.Add(1)
	switch {
	case r.errno != wire.OK:
		c.loop.server.counters.refused.Add(1)
		c.discard = int(head.Payload())
		c.reply(r)
	case head.Payload() > 0:
		c.incoming = r
		c.got = copy(r.payload(), c.in[c.head:c.tail])
		c.head += c.got
		if c.got == len(r.payload()) {
			c.arrived()
		}
	default:
		c.begin(r)
	}
	return true
}

// arrived begins a write whose data is complete.
func (c *conn) arrived() {
	r := c.incoming
	c.incoming, c.got = nil, 0
	c.begin(r)
}

// admit allocates a slot for a request, and pages for its data. It returns nil if there are none now.
func (c *conn) admit(head *wire.Request) *request {
	last := len(c.idle) - 1
	if last < 0 {
		return nil
	}
	r := &c.slots[c.idle[last]]
	r.reset(head, c.check(head))
	if r.errno == wire.OK {
		if r.lay(c.export.block, int64(c.limits.Size)); r.pages > 0 {
			if r.first = c.pages.alloc(r.pages); r.first < 0 {
				r.pages = 0
				return nil
			}
			r.memory = c.memory.Bytes()[r.first*pageSize:][:r.pages*pageSize]
		}
	}
	c.idle = c.idle[:last]
	return r
}

// check returns what is wrong with a request. The disk may have grown since the client connected: the protocol has no
// message for that, but the client may know it by other means.
func (c *conn) check(head *wire.Request) wire.Errno {
	errno := c.limits.Check(head)
	if errno == wire.OK {
		return wire.OK
	}
	if size := uint64(c.export.disk.Store.Info().Size); size > c.limits.Size {
		c.limits.Size = size
		errno = c.limits.Check(head)
	}
	return errno
}

// unstall retries a request for which there was no room, and reports whether there is room now.
func (c *conn) unstall() bool {
	c.stalled = false
	c.parse()
	return !c.stalled
}
