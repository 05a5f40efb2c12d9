package main

import (
	"errors"
	"fmt"
	"time"

	"github.com/nvmeof-go/nvmeof/rdmatransport"
)

// errEnded says that the connection is over, for the reason that it wraps.
var errEnded = errors.New("the connection ended")

// receives are what a connection has posted: n of up to size bytes each.
type receives struct{ n, size int }

// slots bounds the memory of receives: those beyond share it, since who posts
// that many does not look at what arrives.
const slots = 16

// sends is the send queue's depth.
const sends = 256

// isReceive marks the work requests of the receive queue, whose other bits say
// which slot it is.
const isReceive = 1 << 63

// A conn is a connected queue pair with memory for its messages.
type conn struct {
	e  *endpoint
	qp rdmatransport.QueuePair
	mr rdmatransport.MemoryRegion // slots, then one message to send
	r  receives

	sent, received chan rdmatransport.Completion
}

func (e *endpoint) newConn(r receives) (*conn, error) {
	mr, err := e.dom.Register(make([]byte, (slots+1)*r.size), rdmatransport.AccessLocalWrite)
	if err != nil {
		return nil, err
	}
	c := &conn{e: e, mr: mr, r: r,
		sent:     make(chan rdmatransport.Completion, sends),
		received: make(chan rdmatransport.Completion, r.n)}
	return c, e.do(func() (err error) {
		c.qp, err = e.dom.NewQueuePair(rdmatransport.QPConfig{CQ: e.cq, MaxSend: sends, MaxRecv: r.n})
		if err != nil {
			return err
		}
		e.conns[c.qp.QPN()] = c
		for i := range r.n {
			if err := c.qp.PostRecv(c.receiveRequest(i % slots)); err != nil {
				return err
			}
		}
		return nil
	})
}

func (c *conn) receiveRequest(slot int) []rdmatransport.RecvWR {
	return []rdmatransport.RecvWR{{ID: isReceive | uint64(slot), SGL: c.message(slot, c.r.size)}}
}

// message is n bytes of a slot; slot number slots is the one to send from.
func (c *conn) message(slot, n int) []rdmatransport.SGE {
	return sge(c.mr, slot*c.r.size, n)
}

// completed runs on the loop. The channels hold whatever can be outstanding.
func (c *conn) completed(done rdmatransport.Completion) {
	if done.ID&isReceive != 0 {
		c.received <- done
		return
	}
	c.sent <- done
}

// post queues requests; each must be signaled and waited for with wait.
func (c *conn) post(wrs ...rdmatransport.SendWR) error {
	return c.e.do(func() error { return c.qp.PostSend(wrs) })
}

// wait is for the oldest posted request.
func (c *conn) wait() (rdmatransport.Completion, error) { return c.next(c.sent, "a completion") }

// arrival is for the oldest receive, which it does not post again.
func (c *conn) arrival() (rdmatransport.Completion, error) { return c.next(c.received, "a message") }

func (c *conn) next(from chan rdmatransport.Completion, what string) (rdmatransport.Completion, error) {
	late := time.NewTimer(patience)
	defer late.Stop()
	select {
	case done := <-from:
		switch done.Status {
		case rdmatransport.StatusSuccess:
			return done, nil
		case rdmatransport.StatusFlushed:
			return done, fmt.Errorf("%w: %w", errEnded, c.reason())
		}
		return done, fmt.Errorf("%v: %w", done.Status, c.reason())
	case <-late.C:
		return rdmatransport.Completion{}, fmt.Errorf("waited %v for %s", patience, what)
	}
}

func (c *conn) reason() error {
	err := c.e.do(c.qp.Err)
	if err == nil {
		err = errors.New("no reason given")
	}
	return err
}

// do posts one request and waits for it.
func (c *conn) do(wr rdmatransport.SendWR) error {
	wr.Flags |= rdmatransport.FlagSignaled
	if err := c.post(wr); err != nil {
		return err
	}
	_, err := c.wait()
	return err
}

// send sends one message, of up to the size of a receive.
func (c *conn) send(b []byte) error {
	to := c.message(slots, len(b))
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
	b := append([]byte(nil), c.message(slot, int(done.Bytes))[0].Buf...)
	return b, c.e.do(func() error { return c.qp.PostRecv(c.receiveRequest(slot)) })
}

// close disconnects where that is still to do.
func (c *conn) close() {
	c.e.do(func() error {
		c.qp.Disconnect()
		delete(c.e.conns, c.qp.QPN())
		return c.qp.Close()
	})
}

// sge is n bytes of registered memory.
func sge(mr rdmatransport.MemoryRegion, off, n int) []rdmatransport.SGE {
	return []rdmatransport.SGE{{Buf: mr.Bytes()[off:][:n], LKey: mr.LKey()}}
}
