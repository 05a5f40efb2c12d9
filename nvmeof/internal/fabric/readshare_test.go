package fabric

import (
	"testing"
	"time"

	"github.com/nvmeof-go/nvmeof/capsule"
	"github.com/nvmeof-go/nvmeof/nvmeof/internal/shard"
)

// A writer is a party whose queues are kept full of writes that the target fetches.
type writer struct {
	party  Party
	queues []*HostQueue
	stores []*store
	n      int // bytes written
	left   bool
}

func (r *rig) newWriter(queues, depth, size int) *writer {
	w := &writer{}
	w.party.Open(r.target.shard)
	for range queues {
		s := r.newStore(size)
		h := r.queues(s, TargetConfig{Depth: depth + 1}, HostConfig{Depth: depth + 1})
		s.queue.SetParty(&w.party, true)
		w.queues, w.stores = append(w.queues, h), append(w.stores, s)
		m := r.hostMemory(size, false)
		for range depth {
			q := transfer(capsule.IOWrite, m, 0, size, 0)
			var submit func()
			q.Done = func(*Request) {
				w.n += size
				if !w.left {
					submit()
				}
			}
			submit = func() {
				if err := h.Submit(q); err != nil {
					r.t.Fatal(err)
				}
			}
			submit()
		}
	}
	return w
}

// TestReadsAreShared: hosts that write as much as they can get the same room for RDMA READs, with one queue or many,
// long queues or short ones, and large writes or small ones.
func TestReadsAreShared(t *testing.T) {
	type host struct{ queues, depth, size int }
	for name, hosts := range map[string][]host{
		"queues": {{1, 16, 32 << 10}, {32, 16, 32 << 10}},
		"depth":  {{1, 8, 64 << 10}, {4, 64, 64 << 10}},
		"sizes":  {{2, 32, 8 << 10}, {8, 32, 128 << 10}},
	} {
		t.Run(name, func(t *testing.T) {
			r := newRig(t, 64<<10)
			var ws []*writer
			for _, h := range hosts {
				ws = append(ws, r.newWriter(h.queues, h.depth, h.size))
			}
			const turns = 1500
			var before [2]int
			began := time.Now()
			for i := range turns {
				if i == turns/4 {
					before = [2]int{ws[0].n, ws[1].n}
				}
				r.turn()
			}
			a, b := float64(ws[0].n-before[0]), float64(ws[1].n-before[1])
			j, turn := (a+b)*(a+b)/(2*(a*a+b*b)), time.Since(began)/turns
			late := turn > 500*time.Microsecond
			if j < 0.98 && !late {
				t.Errorf("fairness %.3f: %.0f and %.0f bytes", j, a, b)
			}
			for _, w := range ws {
				w.left = true
			}
			r.until("all writes end", func() bool {
				for _, w := range ws {
					for _, h := range w.queues {
						if h.Outstanding() > 0 {
							return false
						}
					}
				}
				return true
			})
			for _, w := range ws {
				for i, h := range w.queues {
					h.Disconnect()
					r.until("both ends have ended", func() bool { return h.State() == StateClosed && w.stores[i].closed == 1 })
				}
			}
			if u := r.target.shard.Budget().Used() + r.target.shard.SlowBudget().Used(); u != 0 {
				t.Errorf("%d bytes of the budgets are lost", u)
			}
			if j < 0.98 && late {
				t.Skipf("fairness %.3f is not judged: a turn takes %v here, and data that takes 5 ms counts as given up", j, turn)
			}
		})
	}
}

// TestReadsBeforeAdmission: what is fetched from a peer that is not admitted takes from the slow budget, and from the
// party's after admission.
func TestReadsBeforeAdmission(t *testing.T) {
	r := newRig(t, 64<<10)
	s := r.newStore(16 << 10)
	h := r.queues(s, TargetConfig{}, HostConfig{})
	var stranger, host Party
	stranger.Open(r.target.shard)
	host.Open(r.target.shard)
	s.queue.SetParty(&stranger, false)
	m := r.hostMemory(16<<10, false)
	quick, slow := r.target.shard.Budget(), r.target.shard.SlowBudget()
	most := [2]int{}
	write := func() [2]int {
		most = [2]int{}
		left := 8
		for range left {
			q := transfer(capsule.IOWrite, m, 0, 16<<10, 0)
			q.Done = func(*Request) { left-- }
			if err := h.Submit(q); err != nil {
				t.Fatal(err)
			}
		}
		r.until("the writes end", func() bool {
			most = [2]int{max(most[0], quick.Used()), max(most[1], slow.Used())}
			return left == 0
		})
		return most
	}
	s.queue.SetEntries(8)
	if got := write(); got[0] != 0 || got[1] == 0 {
		t.Errorf("before admission %d bytes of the hosts' budget and %d of the strangers' were used", got[0], got[1])
	}
	s.queue.SetParty(&host, true)
	if got := write(); got[0] == 0 || got[1] != 0 {
		t.Errorf("after admission %d bytes of the hosts' budget and %d of the strangers' were used", got[0], got[1])
	}
	if quick.Used() != 0 || slow.Used() != 0 {
		t.Errorf("%d and %d bytes are lost", quick.Used(), slow.Used())
	}
	h.Disconnect()
	r.until("both ends have ended", func() bool { return h.State() == StateClosed && s.closed == 1 })
}

// TestGrantWithoutSendQueue: a queue whose host acknowledges nothing, so that no RDMA READ can be posted, does not keep
// room from others.
func TestGrantWithoutSendQueue(t *testing.T) {
	const size = 64 << 10
	r := newRig(t, size)
	s := r.newStore(size)
	h := r.queues(s, TargetConfig{}, HostConfig{})
	var party, other Party
	party.Open(r.target.shard)
	other.Open(r.target.shard)
	s.queue.SetParty(&party, true)
	b := r.target.shard.Budget()
	var claim shard.Claim
	if other.reads.quick.Take(&claim, size, size) != size {
		t.Fatal("there is no room at first")
	}
	q := transfer(capsule.IOWrite, r.hostMemory(size, false), 0, size, 0)
	done := false
	q.Done = func(*Request) { done = true }
	if err := h.Submit(q); err != nil {
		t.Fatal(err)
	}
	r.until("the queue waits for room", func() bool { return s.queue.reads.claim.Waiting() })
	room := s.queue.send.room
	s.queue.send.room = 1 // as if responses used the rest
	b.Give(size)
	r.settle()
	if b.Used() != 0 {
		t.Errorf("%d bytes are kept for reads that cannot be posted", b.Used())
	}
	s.queue.send.room = room
	s.queue.slot.Flush() // as when a response is acknowledged
	r.until("the write ends", func() bool { return done })
	if b.Used() != 0 {
		t.Errorf("%d bytes are lost", b.Used())
	}
	h.Disconnect()
	r.until("both ends have ended", func() bool { return h.State() == StateClosed && s.closed == 1 })
}
