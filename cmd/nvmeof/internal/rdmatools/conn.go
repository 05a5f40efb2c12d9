package rdmatools

import (
	"errors"
	"fmt"
	"time"

	"github.com/nvmeof-go/nvmeof/rdmatransport"
)

// errEnded says that the connection has ended, for the reason that it wraps.
var errEnded = errors.New("the connection ended")

// left reports whether the error is a normal disconnect by the other side. A peer that has received the last message
// may disconnect at once, even before it has acknowledged the message: the sender's last request then ends with this
// error.
func left(err error) bool {
	return errors.Is(err, errEnded) && errors.Is(err, rdmatransport.ErrDisconnected)
}

// depths holds the depths of a connection's queues, and the size of its receives in bytes.
type depths struct{ send, receive, size int }

// slots limits the memory of receives. Further receives share the slots: a test that posts more receives does not
// examine the data.
const slots = 16

// isReceive marks the IDs of receives. The other bits contain the slot.
const isReceive = 1 << 63

// A conn is a connected queue pair with memory for its receives, and for one message to send of the same size.
type conn struct {
	e     *endpoint
	qp    rdmatransport.QueuePair
	mr    rdmatransport.MemoryRegion
	depth depths
	limit time.Duration // for a message, as in wait

	sent, received fifo
	posts          [slots][1]rdmatransport.RecvWR // one for each slot
}

// A fifo holds completions that have not been examined yet.
type fifo struct {
	all  []rdmatransport.Completion
	next int
}

func (f *fifo) push(c rdmatransport.Completion) { f.all = append(f.all, c) }

func (f *fifo) empty() bool { return f.next == len(f.all) }

func (f *fifo) pop() rdmatransport.Completion {
	c := f.all[f.next]
	if f.next++; f.empty() {
		f.all, f.next = f.all[:0], 0
	}
	return c
}

func (e *endpoint) newConn(depth depths) (*conn, error) {
	if most := e.dev.Attrs().MaxQueueDepth; depth.send > most || depth.receive > most {
		return nil, fmt.Errorf("%s has queues of up to %d requests", e.dev.Attrs().Name, most)
	}
	mr, err := e.dom.Register(make([]byte, (slots+1)*depth.size), rdmatransport.AccessLocalWrite)
	if err != nil {
		return nil, err
	}
	c := &conn{e: e, mr: mr, depth: depth}
	for slot := range slots {
		c.posts[slot][0] = rdmatransport.RecvWR{ID: isReceive | uint64(slot), SGL: c.slot(slot, depth.size)}
	}
	c.qp, err = e.dom.NewQueuePair(rdmatransport.QPConfig{CQ: e.cq, MaxSend: depth.send, MaxRecv: depth.receive})
	if err != nil {
		return nil, errors.Join(err, mr.Deregister())
	}
	e.conns[c.qp.QPN()] = c
	for i := range depth.receive {
		if err := c.repost(i % slots); err != nil {
			c.close()
			return nil, err
		}
	}
	return c, nil
}

// slot returns the first n bytes of a slot. The slot with number slots is the one to send from.
func (c *conn) slot(slot, n int) []rdmatransport.SGE { return sge(c.mr, slot*c.depth.size, n) }

func (c *conn) repost(slot int) error { return c.qp.PostRecv(c.posts[slot][:]) }

func (c *conn) completed(done rdmatransport.Completion) {
	if done.ID&isReceive != 0 {
		c.received.push(done)
		return
	}
	c.sent.push(done)
}

// completion waits for the oldest posted request.
func (c *conn) completion() (rdmatransport.Completion, error) {
	return c.next(&c.sent, wait{e: c.e, what: "a completion"})
}

// arrival waits for the oldest receive, and does not post it again.
func (c *conn) arrival() (rdmatransport.Completion, error) {
	return c.next(&c.received, wait{e: c.e, what: "a message of the other end", limit: c.limit})
}

func (c *conn) next(from *fifo, w wait) (rdmatransport.Completion, error) {
	for from.empty() {
		if err := w.turn(); err != nil {
			return rdmatransport.Completion{}, err
		}
	}
	done := from.pop()
	return done, c.failure(done)
}

// failure returns the reason why a request failed; nil if it succeeded.
func (c *conn) failure(done rdmatransport.Completion) error {
	if done.Status == rdmatransport.StatusSuccess {
		return nil
	}
	reason := c.qp.Err()
	if reason == nil {
		reason = errors.New("no reason given")
	}
	if done.Status == rdmatransport.StatusFlushed {
		return fmt.Errorf("%w: %w", errEnded, reason)
	}
	if reason.Error() != done.Status.String() { // otherwise it would be said twice
		reason = fmt.Errorf("%v: %w", done.Status, reason)
	}
	if done.Status == rdmatransport.StatusRetryExceeded {
		// The small messages of the connection exchange have arrived.
		reason = fmt.Errorf("%w; is the other end gone, or does the network between drop packets as large as the MTU of both ends?", reason)
	}
	return reason
}

// post posts requests, which are sent at once. Each must be signaled.
func (c *conn) post(wrs []rdmatransport.SendWR) error {
	if err := c.qp.PostSend(wrs); err != nil {
		return err
	}
	c.e.cq.Flush()
	return nil
}

// do posts one request and waits for it.
func (c *conn) do(wr rdmatransport.SendWR) error {
	wr.Flags |= rdmatransport.FlagSignaled
	if err := c.post([]rdmatransport.SendWR{wr}); err != nil {
		return err
	}
	_, err := c.completion()
	return err
}

// send sends one message of at most the size of a receive.
func (c *conn) send(b []byte) error {
	to := c.slot(slots, len(b))
	copy(to[0].Buf, b)
	return c.do(rdmatransport.SendWR{Op: rdmatransport.OpSend, SGL: to})
}

// receive waits for a message and posts its slot again.
func (c *conn) receive() ([]byte, error) {
	done, err := c.arrival()
	if err != nil {
		return nil, err
	}
	slot := int(done.ID &^ isReceive)
	b := append([]byte(nil), c.slot(slot, int(done.Bytes))[0].Buf...)
	return b, c.repost(slot)
}

// close closes the connection, unless that was done already.
func (c *conn) close() {
	c.qp.Disconnect()
	delete(c.e.conns, c.qp.QPN())
	_ = c.qp.Close() // the device is closed next
	_ = c.mr.Deregister()
}

// sge returns the scatter list of n bytes of registered memory.
func sge(mr rdmatransport.MemoryRegion, off, n int) []rdmatransport.SGE {
	return []rdmatransport.SGE{{Buf: mr.Bytes()[off:][:n], LKey: mr.LKey()}}
}
