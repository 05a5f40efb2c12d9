package fabric

import (
	"errors"
	"fmt"
	"testing"

	"github.com/nvmeof-go/nvmeof/capsule"
)

// TestCancel cancels requests at every position of the queue; the others keep their order.
func TestCancel(t *testing.T) {
	for taken := range 5 {
		t.Run(fmt.Sprint("the one at ", taken), func(t *testing.T) {
			r := newRig(t, 0)
			s := r.newStore(4096)
			s.hold = true
			h := r.queues(s, TargetConfig{Depth: 3}, HostConfig{Depth: 3}) // two at a time
			var rs []*Request
			var ended []int
			for i := range 5 {
				q := &Request{Command: command(capsule.IOFlush, capsule.SGL{})}
				q.Done = func(*Request) { ended = append(ended, i) }
				rs = append(rs, q)
				if err := h.Submit(q); err != nil {
					t.Fatal(err)
				}
			}
			r.until("two arrive", func() bool { return len(s.held) == 2 })
			cid, sent := h.Cancel(rs[taken])
			if want := taken < 2; sent != want || sent && cid != s.held[taken].SQE.CID {
				t.Fatalf("command %#x, sent %v, want %v", cid, sent, want)
			}
			if !sent && (len(ended) != 1 || ended[0] != taken || !errors.Is(rs[taken].Err, ErrCanceled)) {
				t.Errorf("%v ended, %v", ended, rs[taken].Err)
			}
			if _, again := h.Cancel(rs[taken]); again != sent {
				t.Errorf("a second time: sent %v", again)
			}
			s.hold = false
			for _, c := range s.held {
				s.execute(c)
			}
			r.until("all end", func() bool { return len(ended) == 5 })
			if _, sent := h.Cancel(rs[0]); sent {
				t.Error("a request that has ended was sent")
			}
			next := 0
			for _, i := range ended {
				if i == taken {
					continue
				}
				if i < next {
					t.Errorf("ended in the order %v", ended)
				}
				next = i
			}
		})
	}
}

// TestFusedHalves: the commands of a fused operation are sent together and adjacent, however full the queue is, and are
// canceled together.
func TestFusedHalves(t *testing.T) {
	for _, windows := range []bool{false, true} {
		r := newRig(t, 0)
		s := r.newStore(1 << 20)
		s.hold = true
		h := r.queues(s, TargetConfig{Depth: 4}, HostConfig{Depth: 4, Windows: windows})
		m := r.hostMemory(1<<20, windows)
		left := 0
		submit := func(op capsule.IOOpcode, half capsule.Fuse) *Request {
			q := transfer(op, m, left*4096, 4096, 0)
			q.Command.Flags = capsule.CommandFlags(half)
			q.Done = func(*Request) { left-- }
			left++
			if err := h.Submit(q); err != nil {
				t.Fatal(err)
			}
			return q
		}
		submit(capsule.IOWrite, capsule.FuseNone)
		submit(capsule.IOWrite, capsule.FuseNone)
		submit(capsule.IOCompare, capsule.FuseFirst) // no room for both
		submit(capsule.IOWrite, capsule.FuseSecond)
		first := submit(capsule.IOCompare, capsule.FuseFirst)
		second := submit(capsule.IOWrite, capsule.FuseSecond)
		submit(capsule.IOWrite, capsule.FuseNone)
		r.settle()
		if len(s.held) != 2 {
			t.Fatalf("%d commands arrived, want 2", len(s.held))
		}
		if _, sent := h.Cancel(second); sent || !errors.Is(first.Err, ErrCanceled) || !errors.Is(second.Err, ErrCanceled) {
			t.Errorf("halves taken back: %v, %v, sent %v", first.Err, second.Err, sent)
		}
		var order []capsule.Fuse
		for len(order) < 5 {
			r.until("one arrives", func() bool { return len(s.held) > 0 })
			c := s.held[0]
			s.held = s.held[1:]
			order = append(order, c.SQE.Flags.Fuse())
			if c.SQE.Flags.PSDT() != capsule.PSDTSGLContiguous {
				t.Errorf("flags %#x", c.SQE.Flags)
			}
			c.Respond(0, 0)
		}
		if got := fmt.Sprint(order); got != "[0 0 1 2 0]" {
			t.Errorf("halves in the order %v", got)
		}
		r.until("all end", func() bool { return left == 0 })
	}
}

// TestCanceledReadTakesNothing: a read that is canceled while it waits for the budget keeps none of it, even if its
// queue sends nothing any more.
func TestCanceledReadTakesNothing(t *testing.T) {
	const size = 16 << 10
	r := newRig(t, size)
	busy, idle := r.newStore(size), r.newStore(size)
	busy.hold = true
	b, h := r.queues(busy, TargetConfig{}, HostConfig{}), r.queues(idle, TargetConfig{}, HostConfig{})
	m := r.hostMemory(2*size, false)
	ended := 0
	done := func(*Request) { ended++ }
	first, second := transfer(capsule.IORead, m, 0, size, 0), transfer(capsule.IORead, m, size, size, 0)
	first.Done, second.Done = done, done
	if err := b.Submit(first); err != nil {
		t.Fatal(err)
	}
	r.until("the first arrives", func() bool { return len(busy.held) == 1 })
	if err := h.Submit(second); err != nil {
		t.Fatal(err)
	}
	r.turn()
	if _, sent := h.Cancel(second); sent || ended != 1 {
		t.Fatalf("the second was sent: %v; %d ended", sent, ended)
	}
	busy.execute(busy.held[0])
	r.until("the first ends", func() bool { return ended == 2 })
	r.settle()
	if n := r.host.shard.Budget().Used(); n != 0 {
		t.Errorf("%d bytes of the budget are taken, and nothing is on its way", n)
	}
}
