package fabric

import (
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/nvmeof-go/nvmeof/capsule"
	"github.com/nvmeof-go/nvmeof/rdmatransport"
)

// TestEndInEveryState ends a queue at each step of a command: every command and request is returned once, and so are
// the shards' resources.
func TestEndInEveryState(t *testing.T) {
	ends := map[string]func(h *HostQueue, s *store){
		"host":   func(h *HostQueue, _ *store) { h.Disconnect() },
		"target": func(_ *HostQueue, s *store) { s.queue.Disconnect() },
		"failure": func(_ *HostQueue, s *store) { // an RDMA operation that the host refuses
			s.queue.qp.PostSend([]rdmatransport.SendWR{{ID: s.queue.slot.ID(makeTag(tagWrite, 0)), Op: rdmatransport.OpWrite, RKey: 1, RemoteAddr: 1,
				SGL: []rdmatransport.SGE{{Buf: s.mem[:8], LKey: s.region.LKey()}}}})
		},
	}
	for name, end := range ends {
		for _, windows := range []bool{false, true} {
			for turns := range 8 { // so that commands are at different steps
				t.Run(fmt.Sprintf("%s,windows=%v,turns=%d", name, windows, turns), func(t *testing.T) { endAfter(t, turns, windows, end) })
			}
		}
	}
}

// endAfter ends a queue with 20 commands after some turns.
func endAfter(t *testing.T, turns int, windows bool, end func(*HostQueue, *store)) {
	r := newRig(t, 20000)
	s := r.newStore(1 << 20)
	h := r.queues(s, TargetConfig{Depth: 8, InCapsule: 4096}, HostConfig{Depth: 8, InCapsule: 4096, Windows: windows})
	m := r.hostMemory(1<<20, windows)
	back := map[*Request]int{}
	submitted := 0
	for i := range 20 {
		op := capsule.IORead
		if i%2 == 1 {
			op = capsule.IOWrite
		}
		q := transfer(op, m, i*32768, 1000+i*1000, uint32(i*32768))
		q.Done = func(q *Request) { back[q]++ }
		if err := h.Submit(q); err != nil {
			t.Fatal(err)
		}
		submitted++
	}
	for i := range turns {
		if i == turns-1 {
			s.hold = true // the last to arrive stay with the handler
		}
		r.turn()
	}
	end(h, s)
	r.until("the host's end ends", func() bool { return h.State() == StateClosed })
	r.until("the target's end has failed", func() bool { return s.failed != nil })
	if h.Err() == nil || s.queue.Err() == nil {
		t.Fatal("an ended queue has no error")
	}
	r.settle()
	if len(s.held) > 0 && s.closed != 0 {
		t.Fatalf("closed while the handler has commands")
	}
	for _, c := range s.held {
		c.Respond(capsule.StatusSuccess, 0)
	}
	r.until("the target's end ends", func() bool { return s.closed == 1 })
	if s.given != s.done {
		t.Errorf("%d commands given, %d done", s.given, s.done)
	}
	if len(back) != submitted {
		t.Errorf("%d requests of %d came back", len(back), submitted)
	}
	for _, n := range back {
		if n != 1 {
			t.Errorf("a request came back %d times", n)
		}
	}
	if used := r.target.shard.Budget().Used() + r.host.shard.Budget().Used(); used != 0 {
		t.Errorf("%d bytes of the budgets are lost", used)
	}
	if err := h.Submit(transfer(capsule.IOFlush, nil, 0, 0, 0)); err == nil {
		t.Error("a closed queue took a request")
	}
}

// TestFetchAfterEnd: a handler that does not know of the end yet gets its command back.
func TestFetchAfterEnd(t *testing.T) {
	r := newRig(t, 0)
	s := r.newStore(64 << 10)
	s.hold = true
	h := r.queues(s, TargetConfig{}, HostConfig{})
	m := r.hostMemory(64<<10, false)
	for i := range 3 {
		if err := h.Submit(transfer(capsule.IOWrite, m, 0, 512, uint32(i*512))); err != nil {
			t.Fatal(err)
		}
	}
	r.until("commands arrive", func() bool { return len(s.held) == 3 })
	s.queue.Disconnect()
	s.held[0].Fetch(s.sges(s.held[0])) // before the end is processed
	r.until("the queue fails", func() bool { return s.failed != nil })
	s.held[1].Fetch(s.sges(s.held[1])) // and after
	s.held[2].Respond(capsule.StatusSuccess, 0)
	r.until("the queue closes", func() bool { return s.closed == 1 })
	if s.done != 3 {
		t.Errorf("%d commands done, want 3", s.done)
	}
}

// TestOrderlyEnd: a response whose Done was called has reached the host.
func TestOrderlyEnd(t *testing.T) {
	r := newRig(t, 0)
	s := r.newStore(4096)
	h := r.queues(s, TargetConfig{}, HostConfig{})
	s.onDone = func(c *Command) { c.Queue().Disconnect() }
	q := transfer(capsule.IOFlush, nil, 0, 0, 0)
	r.run(h, q)
	if q.Err != nil {
		t.Errorf("the last response was lost: %v", q.Err)
	}
	r.until("both ends end", func() bool { return s.closed == 1 && h.State() == StateClosed })
	if !errors.Is(h.Err(), rdmatransport.ErrDisconnected) {
		t.Errorf("host's queue ended with %v, want %v", h.Err(), rdmatransport.ErrDisconnected)
	}
}

func TestTimeout(t *testing.T) {
	r := newRig(t, 0)
	s := r.newStore(4096)
	s.hold = true
	h := r.queues(s, TargetConfig{}, HostConfig{Timeout: 8 * time.Millisecond})
	patient := transfer(capsule.IOFlush, nil, 0, 0, 0)
	patient.Patient = true
	h.Submit(patient)
	deadline := time.Now().Add(20 * time.Millisecond)
	r.until("the command arrives", func() bool { return len(s.held) == 1 })
	for time.Now().Before(deadline) {
		r.turn()
	}
	if h.State() != StateLive {
		t.Fatalf("a patient request timed out: %v", h.Err())
	}
	var got error
	q := transfer(capsule.IOFlush, nil, 0, 0, 0)
	q.Done = func(q *Request) { got = q.Err }
	h.Submit(q)
	for start := time.Now(); got == nil && time.Since(start) < 5*time.Second; {
		r.turn()
	}
	if !errors.Is(got, ErrTimeout) {
		t.Errorf("request without an answer ended with %v, want %v", got, ErrTimeout)
	}
	for _, c := range s.held {
		c.Respond(0, 0)
	}
	r.until("the target's end ends", func() bool { return s.closed == 1 })
}

// TestConnectRefused: a queue whose connection failed is closed in the same way.
func TestConnectRefused(t *testing.T) {
	r := newRig(t, 0)
	var ending error
	ended := 0
	h, err := NewHost(HostConfig{
		Shard: r.host.shard, Domain: r.host.domain, Attrs: r.host.device.Attrs(), Depth: 4, Windows: true,
		Ending: func(err error) { ending = err },
		Ended:  func(error) { ended++ },
	})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := h.Open(); err != nil {
		t.Fatal(err)
	}
	q := transfer(capsule.IOFlush, nil, 0, 0, 0)
	refused := errors.New("refused")
	q.Done = func(*Request) {
		if ending != refused || ended != 0 {
			t.Errorf("a request comes back after %v, and after %d ends", ending, ended)
		}
	}
	h.Submit(q)
	h.Fail(refused)
	r.until("the queue ends", func() bool { return ended == 1 })
	if q.Err == nil {
		t.Error("a request on a queue that was never connected has no error")
	}
	if err := h.Free(); err != nil {
		t.Error(err)
	}
}

func TestConfigRefused(t *testing.T) {
	r := newRig(t, 0)
	s := r.newStore(4096)
	good := TargetConfig{Shard: r.target.shard, Domain: r.target.domain, Handler: s, Depth: 2}
	for name, change := range map[string]func(*TargetConfig){
		"no shard":           func(c *TargetConfig) { c.Shard = nil },
		"no domain":          func(c *TargetConfig) { c.Domain = nil },
		"no handler":         func(c *TargetConfig) { c.Handler = nil },
		"no depth":           func(c *TargetConfig) { c.Depth = 0 },
		"odd in-capsule":     func(c *TargetConfig) { c.InCapsule = 100 },
		"negative incapsule": func(c *TargetConfig) { c.InCapsule = -16 },
	} {
		c := good
		change(&c)
		if q, err := NewTarget(c); err == nil {
			q.Free()
			t.Errorf("%s: accepted", name)
		}
	}
	for _, depth := range []int{0, 1, maxHostDepth + 1} {
		h, err := NewHost(HostConfig{Shard: r.host.shard, Domain: r.host.domain, Depth: depth})
		if err == nil {
			h.Free()
			t.Errorf("host queue of %d entries: accepted", depth)
		}
	}
}
