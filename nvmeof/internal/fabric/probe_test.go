package fabric

import (
	"testing"

	"github.com/nvmeof-go/nvmeof/capsule"
)

// TestProbe: a live host acknowledges the probe, whatever else is in progress, and the send queue is as before. A queue
// whose host is gone ends.
func TestProbe(t *testing.T) {
	r := newRig(t, 0)
	s := r.newStore(1 << 20)
	h := r.queues(s, TargetConfig{Depth: 4, InCapsule: 4096}, HostConfig{Depth: 4, InCapsule: 4096})
	m := r.hostMemory(1<<20, false)
	room := s.queue.send.room
	done := 0
	for i := range 20 {
		q := transfer(capsule.IORead, m, i*8192, 4096, uint32(i*8192))
		q.Done = func(*Request) { done++ }
		if err := h.Submit(q); err != nil {
			t.Fatal(err)
		}
		s.queue.Probe()
		s.queue.Probe() // one at a time
		r.turn()
	}
	r.until("commands end beside probes", func() bool { return done == 20 })
	r.settle()
	s.queue.Probe()
	r.until("a probe is posted", func() bool { return s.queue.probe == probePosted })
	r.until("it is acknowledged", func() bool { return s.queue.probe == probeNone })
	if s.queue.send.room != room {
		t.Errorf("%d entries of the send queue are free, want %d", s.queue.send.room, room)
	}
	if s.queue.State() != StateLive || h.State() != StateLive {
		t.Fatalf("the queue is %v", s.queue.State())
	}
	s.queue.Disconnect()
	s.queue.Probe()
	r.until("the queue ends", func() bool { return s.closed == 1 })
}
