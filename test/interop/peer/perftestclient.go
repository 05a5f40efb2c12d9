package main

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"net/netip"
	"time"

	"github.com/nvmeof-go/nvmeof/rdmatransport"
)

const (
	// window is how many requests the client keeps posted: as many as there are
	// cache lines in the cycle buffer, so that the atomic before the last on a
	// word is complete when the next is posted.
	window = cycleBuffer / cacheLine
	// reads is how many of them may be in flight, if the server likes.
	reads = 16
)

// A perftestClient drives one server of perftest.
type perftestClient struct {
	bandwidthTest
	e       *endpoint
	control *conn
	data    *conn
	own     destination
	remote  destination
	mr      rdmatransport.MemoryRegion // window parts of size bytes
	words   [window]uint64             // at the server, as far as seen
}

func (t *bandwidthTest) client(e *endpoint) (err error) {
	c := perftestClient{bandwidthTest: *t, e: e}
	if c.mr, err = e.dom.Register(make([]byte, window*t.size), rdmatransport.AccessLocalWrite); err != nil {
		return err
	}
	fill(c.mr.Bytes())
	to := netip.AddrPortFrom(t.server, uint16(t.port))
	if c.control, err = e.dial(to, reads, controlReceives); err != nil {
		return err
	}
	defer c.control.close()
	if err := c.greet(); err != nil {
		return fmt.Errorf("handshake: %w", err)
	}
	if c.data, err = e.dial(to, reads, t.receives()); err != nil {
		return err
	}
	defer c.data.close()
	if err := c.swapDestinations(); err != nil {
		return fmt.Errorf("handshake: %w", err)
	}
	began := time.Now()
	if err := c.transfer(); err != nil {
		return err
	}
	took := time.Since(began)
	if err := c.farewell(took); err != nil {
		return fmt.Errorf("farewell: %w", err)
	}
	fmt.Fprintf(t.out, "%d messages of %d bytes, %.2f MiB/s\n", t.n, t.size, c.bandwidth(took))
	return nil
}

// tell sends a message of the handshake and returns the answer.
func (c *perftestClient) tell(m []byte) ([]byte, error) {
	if err := c.control.send(m); err != nil {
		return nil, err
	}
	answer, err := c.control.receive()
	if err == nil && len(answer) != len(m) {
		err = fmt.Errorf("%d bytes answered with %d", len(m), len(answer))
	}
	return answer, err
}

func (c *perftestClient) greet() error {
	answer, err := c.tell(encodeText(perftestVersion, textSize))
	if err != nil {
		return err
	}
	if v := decodeText(answer); v != perftestVersion {
		return fmt.Errorf("the server is perftest %q, only %s is understood", v, perftestVersion)
	}
	for _, m := range [][]byte{
		binary.BigEndian.AppendUint32(nil, cycleBuffer),
		binary.BigEndian.AppendUint32(nil, cacheLine),
		encodeText(mtu4096, mtuSize),
		destination{}.encode(),
	} {
		if _, err := c.tell(m); err != nil {
			return err
		}
	}
	return nil
}

// swapDestinations tells ours and keeps what the server tells of its own.
func (c *perftestClient) swapDestinations() error {
	if _, err := c.tell(destination{}.encode()); err != nil {
		return err
	}
	c.own = destination{reads, c.data.qp.QPN(), c.mr.RKey(), c.mr.IOVA(), c.e.dev.Addr()}
	for range c.op.exchanges() - 1 {
		answer, err := c.tell(c.own.encode())
		if err == nil {
			c.remote, err = decodeDestination(answer)
		}
		if err != nil {
			return err
		}
	}
	if c.remote.qpn == 0 {
		return errors.New("the server tells no queue pair")
	}
	return nil
}

// transfer posts all requests, never more than window at a time.
func (c *perftestClient) transfer() error {
	for i := range c.n + window {
		if i >= window && i-window < c.n {
			if err := c.complete(i - window); err != nil {
				return fmt.Errorf("message %d: %w", i-window, err)
			}
		}
		if i < c.n {
			if err := c.data.post(c.request(i)); err != nil {
				return err
			}
		}
	}
	return nil
}

func (c *perftestClient) request(i int) rdmatransport.SendWR {
	part := i % window
	wr := rdmatransport.SendWR{ID: uint64(i), Flags: rdmatransport.FlagSignaled,
		SGL:        sge(c.mr, part*c.size, c.size),
		RemoteAddr: c.remote.vaddr, RKey: c.remote.rkey}
	switch c.op {
	case opSend:
		wr.Op = rdmatransport.OpSend
	case opWrite:
		wr.Op = rdmatransport.OpWrite
	case opRead:
		wr.Op = rdmatransport.OpRead
	case opFetchAdd:
		wr.Op, wr.Operand = rdmatransport.OpFetchAdd, 1
		wr.RemoteAddr += uint64(part * cacheLine)
	case opCompareSwap: // at first only to learn the word, then one up each time
		wr.Op = rdmatransport.OpCompareSwap
		wr.RemoteAddr += uint64(part * cacheLine)
		if i >= window {
			wr.Compare, wr.Operand = c.words[part], c.words[part]+1
		}
	}
	return wr
}

// complete waits for a request and checks what it brought.
func (c *perftestClient) complete(i int) error {
	done, err := c.data.wait()
	if err != nil {
		return err
	}
	if done.ID != uint64(i) {
		return fmt.Errorf("request %d completed", done.ID)
	}
	part := i % window
	got := c.mr.Bytes()[part*c.size:][:c.size]
	switch c.op {
	case opRead: // the server's memory does not change
		if !bytes.Equal(got, c.mr.Bytes()[:c.size]) {
			return errors.New("other data than that read first")
		}
	case opFetchAdd, opCompareSwap:
		word := binary.NativeEndian.Uint64(got)
		if i >= window && word != c.words[part] {
			return fmt.Errorf("the word is %#x, want %#x", word, c.words[part])
		}
		c.words[part] = word
		if c.op == opFetchAdd || i >= window {
			c.words[part]++
		}
	}
	return nil
}

// bandwidth is in MiB per second.
func (c *perftestClient) bandwidth(took time.Duration) float64 {
	return float64(c.n) * float64(c.size) / (1 << 20) / took.Seconds()
}

// farewell says that the data is through and what came of it, except with SEND,
// where the server knows, and good bye.
func (c *perftestClient) farewell(took time.Duration) error {
	var messages [][]byte
	if c.op != opSend {
		messages = append(messages, c.own.encode())
		bw := math.Float64bits(c.bandwidth(took))
		rate := math.Float64bits(float64(c.n) / 1e6 / took.Seconds())
		for _, v := range [reports]uint64{uint64(c.size), uint64(c.n), bw, bw, rate} {
			messages = append(messages, binary.BigEndian.AppendUint64(nil, v))
		}
	}
	for _, m := range append(messages, c.own.encode()) {
		if _, err := c.tell(m); err != nil {
			return err
		}
	}
	return nil
}
