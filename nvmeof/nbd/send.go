package nbd

import (
	"unsafe"

	"golang.org/x/sys/unix"

	"github.com/nvmeof-go/nvmeof/nvmeof/nbd/internal/wire"
)

// replies is the queue of slots whose replies must be sent, in order, and how much of the first has been sent.
type replies struct {
	ring       [depth]uint16
	head, tail uint32
	sent       int // bytes
}

func (r *replies) len() int { return int(r.tail - r.head) }

func (r *replies) push(slot uint16) {
	r.ring[r.tail%depth] = slot
	r.tail++
}

func (r *replies) at(i int) uint16 { return r.ring[(r.head+uint32(i))%depth] }

// data returns the data that follows the head of a reply.
func (r *request) data() []byte {
	if r.errno == wire.OK && r.head.Command == wire.CmdRead {
		return r.payload()
	}
	return nil
}

// maxVectors is the maximum number of parts of one write.
const maxVectors = 128

// send sends what is pending, as far as the socket takes it.
func (c *conn) send() {
	for c.pending() {
		var iov [maxVectors]unix.Iovec
		n := 0
		add := func(b []byte) {
			if len(b) > 0 {
				iov[n].Base = unsafe.SliceData(b)
				iov[n].SetLen(len(b))
				n++
			}
		}
		add(c.out)
		skip := c.replies.sent
		for i := 0; i < c.replies.len() && n+2 <= maxVectors; i++ {
			r := &c.slots[c.replies.at(i)]
			head, data := r.reply[:r.replySize], r.data()
			past := min(skip, len(head))
			add(head[past:])
			add(data[min(skip-past, len(data)):])
			skip = 0
		}
		h := unix.Msghdr{Iov: &iov[0]}
		h.SetIovlen(n)
		wrote, _, errno := unix.RawSyscall(unix.SYS_SENDMSG, uintptr(c.fd), uintptr(unsafe.Pointer(&h)), unix.MSG_DONTWAIT|unix.MSG_NOSIGNAL)
		switch {
		case errno == unix.EAGAIN || errno == unix.EINTR:
			c.blocked = errno == unix.EAGAIN
			return
		case errno != 0:
			c.lost()
			return
		}
		c.wrote(int(wrote))
	}
}

// wrote handles n more bytes having been sent.
func (c *conn) wrote(n int) {
	if taken := min(n, len(c.out)); taken > 0 {
		n -= taken
		c.out = c.out[taken:]
	}
	n += c.replies.sent
	for c.replies.len() > 0 {
		r := &c.slots[c.replies.at(0)]
		size := r.replySize + len(r.data())
		if n < size {
			break
		}
		n -= size
		c.replies.head++
		c.release(r)
	}
	c.replies.sent = n
}

// dropReplies frees the replies that will not be read.
func (c *conn) dropReplies() {
	c.replies.sent = 0
	for ; c.replies.len() > 0; c.replies.head++ {
		c.release(&c.slots[c.replies.at(0)])
	}
}
