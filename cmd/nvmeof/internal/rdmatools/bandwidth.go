package rdmatools

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"time"

	"github.com/nvmeof-go/nvmeof/cmd/nvmeof/internal/failure"
	"github.com/nvmeof-go/nvmeof/cmd/nvmeof/internal/perftest"
	"github.com/nvmeof-go/nvmeof/rdmatransport"
)

// lines is the number of words that atomics cycle through, each in a cache line of its own. It limits the number of
// atomics in flight, since an atomic on a word waits for the previous one on that word.
const lines = perftest.CycleBuffer / perftest.CacheLine

// measured runs the measurement, exchanges the last messages, and reports.
func (r *run) measured(s perftest.Setting) error {
	switch {
	case r.test.Latency:
		return r.latency(s)
	case r.client:
		return r.clientBandwidth(s)
	case r.test.Verb == perftest.Send:
		return r.serverBandwidth(s)
	}
	return r.serveBandwidth(s)
}

// maxMemory is the maximum size of a client's buffer in bytes, unless one message is larger.
const maxMemory = 64 << 20

// A clock measures the time since the beginning of a measurement.
type clock time.Time

// now returns the time in nanoseconds.
func (c clock) now() int64 { return int64(time.Since(time.Time(c))) }

// A sender holds a client's requests and their buffer.
type sender struct {
	*run
	depth int
	mr    rdmatransport.MemoryRegion // divided into parts of size bytes
	wrs   []rdmatransport.SendWR     // one for each request in flight; large ones share parts
	words []uint64                   // for atomics: the values at the server, as far as known
}

func (r *run) newSender() (*sender, error) {
	s := &sender{run: r, depth: r.data.depth.send}
	if r.test.Verb.Atomic() {
		s.depth = min(s.depth, lines)
		s.words = make([]uint64, s.depth)
	}
	parts := max(1, min(s.depth, maxMemory/r.size))
	var err error
	if s.mr, err = r.e.dom.Register(make([]byte, parts*r.size), rdmatransport.AccessLocalWrite); err != nil {
		return nil, err
	}
	fill(s.mr.Bytes())
	op := map[perftest.Verb]rdmatransport.Opcode{
		perftest.Send: rdmatransport.OpSend, perftest.Write: rdmatransport.OpWrite, perftest.Read: rdmatransport.OpRead,
		perftest.FetchAdd: rdmatransport.OpFetchAdd, perftest.CompareSwap: rdmatransport.OpCompareSwap,
	}[r.test.Verb]
	for i := range s.depth {
		wr := rdmatransport.SendWR{ID: uint64(i), Op: op, Flags: rdmatransport.FlagSignaled, SGL: sge(s.mr, i%parts*r.size, r.size)}
		if r.test.Verb != perftest.Send {
			wr.RemoteAddr, wr.RKey = r.remote.VAddr, r.remote.RKey
		}
		if r.test.Verb.Atomic() {
			wr.RemoteAddr += uint64(i * perftest.CacheLine)
			wr.Operand = 1
		}
		s.wrs = append(s.wrs, wr)
	}
	return s, nil
}

// request returns the i-th request. The first compare-and-swap on each word reads its value; the later ones increment
// it.
func (s *sender) request(i int) *rdmatransport.SendWR {
	part := i % s.depth
	wr := &s.wrs[part]
	if s.test.Verb == perftest.CompareSwap {
		wr.Compare, wr.Operand = 0, 0
		if i >= s.depth {
			wr.Compare, wr.Operand = s.words[part], s.words[part]+1
		}
	}
	return wr
}

// done waits for the i-th request, which is the oldest, and verifies the result of an atomic.
func (s *sender) done(i int) error {
	c, err := s.data.completion()
	part := i % s.depth
	switch {
	case err != nil:
		return fmt.Errorf("message %d: %w", i, err)
	case c.ID != uint64(part):
		return fmt.Errorf("message %d: request %d completed", i, c.ID)
	case !s.test.Verb.Atomic():
		return nil
	}
	word := binary.NativeEndian.Uint64(s.wrs[part].SGL[0].Buf)
	if i >= s.depth && word != s.words[part] {
		return &failure.WrongData{Err: fmt.Errorf("message %d: the word is %#x, want %#x", i, word, s.words[part])}
	}
	s.words[part] = word
	if s.test.Verb == perftest.FetchAdd || i >= s.depth {
		s.words[part]++
	}
	return nil
}

// check verifies that all RDMA READs returned the same data, since that does not change.
func (s *sender) check() error {
	if s.test.Verb != perftest.Read {
		return nil
	}
	first := s.wrs[0].SGL[0].Buf
	for _, wr := range s.wrs[:min(s.n, s.depth)] {
		if !bytes.Equal(wr.SGL[0].Buf, first) {
			return &failure.WrongData{Err: errors.New("RDMA READs of the same memory brought different data")}
		}
	}
	return nil
}

// transfer keeps depth requests in flight, and returns the times at which each was posted and completed.
func (s *sender) transfer() (posted, completed []int64, err error) {
	posted, completed = make([]int64, 0, s.n), make([]int64, 0, s.n)
	batch := make([]rdmatransport.SendWR, 0, s.depth)
	clock := clock(time.Now())
	for len(completed) < s.n {
		batch = batch[:0]
		for now := clock.now(); len(posted) < s.n && len(posted)-len(completed) < s.depth; posted = append(posted, now) {
			batch = append(batch, *s.request(len(posted)))
		}
		if len(batch) > 0 {
			if err := s.data.post(batch); err != nil {
				return nil, nil, err
			}
		}
		for first := true; first || !s.data.sent.empty(); first = false {
			if err := s.done(len(completed)); err != nil {
				return nil, nil, err
			}
			completed = append(completed, clock.now())
		}
	}
	return posted, completed, s.check()
}

func (r *run) clientBandwidth(setting perftest.Setting) error {
	s, err := r.newSender()
	if err != nil {
		return err
	}
	posted, completed, err := s.transfer()
	if err != nil {
		return err
	}
	b := perftest.NewBandwidth(r.size, posted, completed)
	if r.test.Reported() {
		for _, m := range append([][]byte{r.own.Encode()}, b.Messages()...) {
			if _, err := r.side.swap(r.control, m); err != nil {
				return fmt.Errorf("final message: %w", err)
			}
		}
	}
	if err := r.exchangeLast(); err != nil {
		return err
	}
	return r.printBandwidth(setting, b)
}

// serveBandwidth waits until the client no longer uses this side's memory, and prints the results that the client
// sends.
func (r *run) serveBandwidth(setting perftest.Setting) error {
	r.control.limit = unlimited
	if _, err := r.side.swap(r.control, r.own.Encode()); err != nil {
		return err
	}
	r.control.limit = 0
	var reported [][]byte
	for _, mine := range (perftest.Bandwidth{}).Messages() {
		theirs, err := r.side.swap(r.control, mine)
		if err != nil {
			return fmt.Errorf("the client's report: %w", err)
		}
		reported = append(reported, theirs)
	}
	if err := r.exchangeLast(); err != nil {
		return err
	}
	b, err := perftest.ParseBandwidth(reported)
	if err == nil {
		err = r.checkMemory(b)
	}
	if err != nil {
		return err
	}
	return r.printBandwidth(setting, b)
}

// checkMemory verifies that the client has changed this side's memory as it reports.
func (r *run) checkMemory(b perftest.Bandwidth) error {
	switch r.test.Verb {
	case perftest.Write:
		for _, v := range r.mr.Bytes() {
			if v != 0 {
				return nil
			}
		}
		return &failure.WrongData{Err: errors.New("nothing was written")}
	case perftest.FetchAdd:
		var sum uint64
		for m := r.mr.Bytes(); len(m) >= perftest.AtomicSize; m = m[perftest.AtomicSize:] {
			sum += binary.NativeEndian.Uint64(m)
		}
		if sum != uint64(b.Iterations) {
			return &failure.WrongData{Err: fmt.Errorf("%d was added, the client reports %d", sum, b.Iterations)}
		}
	}
	return nil
}

// serverBandwidth receives the client's messages, and measures the time from the first to the last.
func (r *run) serverBandwidth(setting perftest.Setting) error {
	times := make([]int64, 0, r.n)
	clock := clock(time.Now())
	for i := range r.n {
		if err := r.message(i); err != nil {
			return err
		}
		times = append(times, clock.now())
	}
	if err := r.exchangeLast(); err != nil {
		return err
	}
	from := append([]int64{times[0]}, times[:r.n-1]...)
	return r.printBandwidth(setting, perftest.NewBandwidth(r.size, from, times))
}

// message receives the i-th message, and posts its receive again if enough messages are still to come.
func (r *run) message(i int) error {
	c, err := r.data.arrival()
	if err != nil {
		return fmt.Errorf("message %d: %w", i, err)
	}
	if int(c.Bytes) != r.size {
		return &failure.WrongData{Err: fmt.Errorf("message %d has %d bytes, want %d: is --size the same at both ends?", i, c.Bytes, r.size)}
	}
	if i+r.data.depth.receive < r.n {
		return r.data.repost(int(c.ID &^ isReceive))
	}
	return nil
}

// exchangeLast exchanges the last message, if the test has one.
func (r *run) exchangeLast() error {
	if !r.test.GoodBye() {
		return nil
	}
	_, err := r.side.swap(r.control, r.own.Encode())
	if err != nil && (r.client || !left(err)) {
		return fmt.Errorf("final message: %w", err)
	}
	return nil
}

func (r *run) printBandwidth(s perftest.Setting, b perftest.Bandwidth) error {
	if r.json() {
		return b.WriteJSON(r.out, s)
	}
	return b.WriteText(r.out)
}
