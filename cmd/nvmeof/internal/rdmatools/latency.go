package rdmatools

import (
	"fmt"
	"time"

	"github.com/nvmeof-go/nvmeof/cmd/nvmeof/internal/perftest"
	"github.com/nvmeof-go/nvmeof/rdmatransport"
)

// latencyDepth is the depth of the send queue in latency tests: a message may not have completed yet when its answer
// arrives.
const latencyDepth = 16

// latency measures, exchanges the last messages, and reports. A server whose client alone measures has nothing to
// report.
func (r *run) latency(setting perftest.Setting) error {
	var posted []int64
	var err error
	switch {
	case r.test.OneSided() && !r.client:
		r.control.limit = unlimited
		return r.exchangeLast()
	case r.test.OneSided():
		posted, err = r.oneByOne()
	case r.test.Verb == perftest.Send:
		posted, err = r.sendAndReceive()
	default:
		posted, err = r.writeBackAndForth()
	}
	if err != nil {
		return err
	}
	if err := r.exchangeLast(); err != nil {
		return err
	}
	l := r.test.NewLatency(r.size, posted)
	if r.json() {
		return l.WriteJSON(r.out, setting)
	}
	return l.WriteText(r.out)
}

// oneByOne posts each request when the previous one has completed.
func (r *run) oneByOne() (posted []int64, err error) {
	s, err := r.newSender()
	if err != nil {
		return nil, err
	}
	posted = make([]int64, 0, r.n)
	clock := clock(time.Now())
	for i := range r.n {
		posted = append(posted, clock.now())
		at := i % s.depth
		s.request(i)
		if err := r.data.post(s.wrs[at : at+1]); err != nil {
			return nil, err
		}
		if err := s.done(i); err != nil {
			return nil, err
		}
	}
	return posted, s.check()
}

// sendAndReceive sends each message when the previous one has been answered. The client begins.
func (r *run) sendAndReceive() (posted []int64, err error) {
	s, err := r.newSender()
	if err != nil {
		return nil, err
	}
	posted = make([]int64, 0, r.n)
	clock := clock(time.Now())
	completed, received := 0, 0
	for i := range r.n {
		if i > 0 || !r.client {
			if err := r.message(received); err != nil {
				return nil, err
			}
			received++
		}
		for !r.data.sent.empty() || i-completed == s.depth {
			if err := s.done(completed); err != nil {
				return nil, err
			}
			completed++
		}
		posted = append(posted, clock.now())
		at := i % s.depth
		if err := r.data.post(s.wrs[at : at+1]); err != nil {
			return nil, err
		}
	}
	for ; received < r.n; received++ {
		if err := r.message(received); err != nil {
			return nil, err
		}
	}
	for ; completed < r.n; completed++ {
		if err := s.done(completed); err != nil {
			return nil, err
		}
	}
	return posted, nil
}

// lookAgain is how long a side may sleep while it waits for an RDMA WRITE of the other side, which causes no event.
const lookAgain = 50 * time.Microsecond

// writeBackAndForth writes each message when the other side has written. The last byte of a message is its number. The
// server begins.
func (r *run) writeBackAndForth() (posted []int64, err error) {
	mr, err := r.e.dom.Register(make([]byte, r.size), rdmatransport.AccessLocalWrite)
	if err != nil {
		return nil, err
	}
	wrs := []rdmatransport.SendWR{{
		Op: rdmatransport.OpWrite, Flags: rdmatransport.FlagSignaled, SGL: sge(mr, 0, r.size),
		RemoteAddr: r.remote.VAddr, RKey: r.remote.RKey,
	}}
	posted = make([]int64, 0, r.n)
	clock := clock(time.Now())
	for i := range r.n {
		seen := i + 1
		if !r.client {
			seen = i
		}
		if err := r.written(seen); err != nil {
			return nil, err
		}
		posted = append(posted, clock.now())
		mr.Bytes()[r.size-1] = byte(i + 1)
		if err := r.data.post(wrs); err != nil {
			return nil, err
		}
		if _, err := r.data.completion(); err != nil && (i < r.n-1 || !left(err)) {
			return nil, fmt.Errorf("message %d: %w", i, err)
		}
	}
	return posted, r.written(r.n)
}

// written waits until the other side's n-th message has arrived.
func (r *run) written(n int) error {
	last := &r.mr.Bytes()[r.size-1]
	for w := (wait{e: r.e, what: "an RDMA WRITE of the other end", maxSleep: lookAgain}); n > 0 && *last != byte(n); {
		if err := w.turn(); err != nil {
			return err
		}
		if err := r.data.qp.Err(); err != nil && *last != byte(n) {
			return fmt.Errorf("message %d: %w: %w", n, errEnded, err)
		}
	}
	return nil
}
