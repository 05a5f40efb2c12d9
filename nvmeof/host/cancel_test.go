package host

import (
	"context"
	"errors"
	"slices"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/nvmeof-go/nvmeof/backend"
	"github.com/nvmeof-go/nvmeof/capsule"
	"github.com/nvmeof-go/nvmeof/nvmeof/host/internal/association"
	"github.com/nvmeof-go/nvmeof/nvmeof/internal/fabric"
)

// A slow is a controller that completes I/O commands when the test says so.
type slow struct {
	*liar
	controller *Controller
	ns         *Namespace
	held       []slowCommand // owned by the loop
	aborted    []capsule.Abort
}

type slowCommand struct {
	queue   *liarQueue
	command *fabric.Command
}

func newSlow(t *testing.T, change func(*liar, *Options)) *slow {
	t.Helper()
	s := &slow{liar: newLiar(t)}
	s.io = func(q *liarQueue, c *fabric.Command) {
		if q.failed {
			c.Respond(0, 0)
			return
		}
		s.held = append(s.held, slowCommand{q, c})
		q.held = append(q.held, c)
	}
	s.liar.abort = func(a capsule.Abort) (uint64, bool) {
		s.aborted = append(s.aborted, a)
		return 1, true
	}
	o := s.options()
	o.NrIOQueues = 1
	if change != nil {
		change(s.liar, &o)
	}
	var err error
	if s.controller, err = s.host.Connect(context.Background(), o); err != nil {
		t.Fatal(err)
	}
	if s.ns, err = s.controller.Namespace(context.Background(), 1); err != nil {
		t.Fatal(err)
	}
	return s
}

// want waits until nothing changes, and checks what has arrived by then.
func (s *slow) want(commands, aborts int) {
	s.t.Helper()
	synctest.Wait()
	s.liar.shard.Call(func() {
		if len(s.held) != commands || len(s.aborted) != aborts {
			s.t.Errorf("%d commands held and %d aborts, want %d and %d", len(s.held), len(s.aborted), commands, aborts)
		}
	})
}

// answer completes the oldest held command.
func (s *slow) answer(status capsule.Status) {
	s.liar.shard.Call(func() {
		x := s.held[0]
		s.held = s.held[1:]
		x.queue.held = slices.DeleteFunc(x.queue.held, func(c *fabric.Command) bool { return c == x.command })
		x.command.Respond(status, 0)
	})
	synctest.Wait()
}

// operations are the operations that ctx can end.
var operations = map[string]func(context.Context, *Namespace) error{
	"read": func(ctx context.Context, n *Namespace) error {
		return second(n.ReadAtContext(ctx, make([]byte, 512), 0))
	},
	"write": func(ctx context.Context, n *Namespace) error {
		return second(n.WriteAtContext(ctx, make([]byte, 512), 0))
	},
	"flush": func(ctx context.Context, n *Namespace) error { return n.FlushContext(ctx) },
	"durable": func(ctx context.Context, n *Namespace) error {
		return second(n.WriteDurable(ctx, make([]byte, 512), 0))
	},
	"execute": func(ctx context.Context, n *Namespace) error {
		return second(n.Execute(ctx, capsule.Command{Opcode: capsule.Opcode(capsule.IOWrite)}, make([]byte, 8192)))
	},
}

// TestCancel: when a context ends, the command is aborted, with its queue and identifier, and the operation ends when
// the command has completed, and not before.
func TestCancel(t *testing.T) {
	for name, begin := range operations {
		for _, c := range []struct {
			name   string
			status capsule.Status
			want   error
		}{
			{"aborted", capsule.StatusAbortRequested, context.Canceled},
			{"too late", capsule.StatusSuccess, nil},
			{"another error", capsule.StatusInternalError, context.Canceled},
		} {
			if name == "execute" && c.name == "another error" {
				continue // the command's outcome counts
			}
			t.Run(name+" "+c.name, func(t *testing.T) {
				inBubble(t, func(t *testing.T) {
					s := newSlow(t, nil)
					ctx, cancel := context.WithCancel(context.Background())
					result := make(chan error, 1)
					go func() { result <- begin(ctx, s.ns) }()
					s.want(1, 0)
					cancel()
					s.want(1, 1)
					if got, want := s.aborted[0], (capsule.Abort{SQID: 1, CID: s.held[0].command.SQE.CID}); got != want {
						t.Errorf("abort of %+v, want %+v", got, want)
					}
					select {
					case err := <-result:
						t.Fatalf("ended with %v while its command was outstanding", err)
					default:
					}
					s.answer(c.status)
					if err := <-result; !errors.Is(err, c.want) {
						t.Errorf("ended with %v, want %v", err, c.want)
					}
					if err := begin(ctx, s.ns); !errors.Is(err, context.Canceled) {
						t.Errorf("begun with a context that has ended: %v", err)
					}
					s.want(0, 1)
				})
			})
		}
	}
}

// TestCancelUnanswered: a controller that completes neither command nor Abort is given up, which ends the operation. If
// it may still change blocks, its error is the loss.
func TestCancelUnanswered(t *testing.T) {
	for name, want := range map[string]error{
		"read": context.DeadlineExceeded, "flush": context.DeadlineExceeded,
		"write": fabric.ErrTimeout, "durable": fabric.ErrTimeout, "execute": fabric.ErrTimeout,
	} {
		inBubble(t, func(t *testing.T) {
			s := newSlow(t, func(l *liar, o *Options) {
				l.abort = func(capsule.Abort) (uint64, bool) { return 0, false }
				o.Timeout = 2 * time.Second
			})
			ctx, cancel := context.WithTimeout(context.Background(), 100*time.Millisecond)
			defer cancel()
			start := time.Now()
			err := operations[name](ctx, s.ns)
			if d := time.Since(start); !errors.Is(err, want) || d < 2*time.Second || d > 4*time.Second {
				t.Errorf("%s ended with %v after %v, want %v", name, err, d, want)
			}
			if !errors.Is(s.controller.Err(), fabric.ErrTimeout) {
				t.Errorf("controller: %v, want %v", s.controller.Err(), fabric.ErrTimeout)
			}
		})
	}
}

// TestCancelUnsent: a canceled operation that waits for a queue entry or a buffer is never sent.
func TestCancelUnsent(t *testing.T) {
	for name, begin := range operations {
		for _, short := range []string{"entries", "buffers"} {
			if short == "buffers" && name == "flush" {
				continue
			}
			t.Run(name+" without "+short, func(t *testing.T) {
				inBubble(t, func(t *testing.T) {
					s := newSlow(t, func(_ *liar, o *Options) {
						o.BounceMemory = 1 << 20
						if short == "entries" {
							o.QueueSize = 2
						}
					})
					first := make(chan error, 1)
					if short == "buffers" {
						go func() {
							_, err := s.ns.Execute(context.Background(), capsule.Command{Opcode: capsule.Opcode(capsule.IORead)}, make([]byte, 1<<20))
							first <- err
						}()
					} else {
						go func() { first <- s.ns.Flush() }()
					}
					s.want(1, 0)
					ctx, cancel := context.WithCancel(context.Background())
					result := make(chan error, 1)
					go func() { result <- begin(ctx, s.ns) }()
					s.want(1, 0)
					cancel()
					if err := <-result; !errors.Is(err, context.Canceled) {
						t.Errorf("ended with %v", err)
					}
					s.want(1, 0)
					s.answer(0)
					if err := <-first; err != nil {
						t.Errorf("the other: %v", err)
					}
					go func() { result <- begin(context.Background(), s.ns) }()
					s.want(1, 0)
					s.answer(0)
					if err := <-result; err != nil {
						t.Errorf("the next: %v", err)
					}
				})
			})
		}
	}
}

// TestCancelHalfSent: a canceled operation of several commands waits only for those that were sent.
func TestCancelHalfSent(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		s := newSlow(t, func(l *liar, o *Options) {
			l.identify = func(i *capsule.IdentifyController) { i.MDTS = 1 } // 8 KiB
			o.QueueSize = 3
		})
		ctx, cancel := context.WithCancel(context.Background())
		result := make(chan error, 1)
		go func() { result <- second(s.ns.ReadAtContext(ctx, make([]byte, 40<<10), 0)) }()
		s.want(2, 0)
		cancel()
		s.want(2, 2)
		s.answer(0)
		s.want(1, 2)
		s.answer(0)
		if err := <-result; !errors.Is(err, context.Canceled) {
			t.Errorf("ended with %v", err)
		}
		s.want(0, 2)
	})
}

// TestAbortLimit: no more Aborts are outstanding than the controller accepts.
func TestAbortLimit(t *testing.T) {
	for _, acl := range []uint8{0, 2} {
		inBubble(t, func(t *testing.T) {
			var s *slow
			s = newSlow(t, func(l *liar, o *Options) {
				l.identify = func(i *capsule.IdentifyController) { i.ACL = acl }
				l.abort = func(a capsule.Abort) (uint64, bool) {
					s.aborted = append(s.aborted, a)
					return 0, false
				}
			})
			ctx, cancel := context.WithCancel(context.Background())
			results := make(chan error, 10)
			for range 10 {
				go func() { results <- s.ns.FlushContext(ctx) }()
			}
			s.want(10, 0)
			cancel()
			for i := range 10 {
				s.want(10, min(10, i+1+int(acl)))
				s.liar.shard.Call(func() {
					admin := s.queues[0]
					c := admin.held[0]
					admin.held = admin.held[1:]
					c.Respond(0, 0)
				})
			}
			for range 10 {
				s.answer(capsule.StatusAbortRequested)
				if err := <-results; !errors.Is(err, context.Canceled) {
					t.Errorf("ended with %v", err)
				}
			}
		})
	}
}

// TestLateAbort: an Abort that waited for others is not sent once its command has completed. While an Abort is
// outstanding, its command's identifier is not reused, though identifiers are reused soon.
func TestLateAbort(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		var s *slow
		s = newSlow(t, func(l *liar, o *Options) {
			o.QueueSize = 3 // 2 commands: an identifier comes again after 2^15 of them in a slot
			l.abort = func(a capsule.Abort) (uint64, bool) {
				s.aborted = append(s.aborted, a)
				return 0, false
			}
		})
		ctx, cancel := context.WithCancel(context.Background())
		results := make(chan error, 2)
		for range 2 {
			go func() { results <- s.ns.FlushContext(ctx) }()
		}
		s.want(2, 0)
		cancel()
		s.want(2, 1)
		s.liar.shard.Call(func() { // the aborted one completes last: its slot is used next
			if s.held[1].command.SQE.CID != s.aborted[0].CID {
				slices.Reverse(s.held)
			}
		})
		for range 2 {
			s.answer(0)
			<-results
		}
		var seen atomic.Int64
		s.liar.shard.Call(func() {
			s.io = func(_ *liarQueue, c *fabric.Command) {
				if c.SQE.CID == s.aborted[0].CID {
					seen.Add(1)
				}
				c.Respond(0, 0)
			}
		})
		round := func() {
			for range 1<<15 + 10 { // one after the other: by one slot
				if err := s.ns.Flush(); err != nil {
					t.Fatal(err)
				}
			}
		}
		round()
		if n := seen.Load(); n != 0 {
			t.Errorf("%d commands have the identifier of one that is being aborted", n)
		}
		s.liar.shard.Call(func() {
			admin := s.queues[0]
			admin.held[0].Respond(1, 0)
			admin.held = nil
		})
		s.want(0, 1) // and no other Abort
		round()
		if seen.Load() == 0 {
			t.Error("the identifier is never used again")
		}
	})
}

// TestAbortAskedAgain: an Abort whose slot was retained for another Abort when its queue was asked is sent, even if the
// other one completes before the queue's answer is handled.
func TestAbortAskedAgain(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		var s *slow
		s = newSlow(t, func(l *liar, o *Options) {
			o.QueueSize = 2 // one command
			l.abort = func(a capsule.Abort) (uint64, bool) {
				s.aborted = append(s.aborted, a)
				return 0, len(s.aborted) > 1
			}
		})
		ctx, cancel := context.WithCancel(context.Background())
		results := make(chan error, 2)
		go func() { results <- s.ns.FlushContext(ctx) }()
		s.want(1, 0)
		cancel()
		s.want(1, 1)
		s.answer(capsule.StatusAbortRequested)
		<-results
		go func() { results <- s.ns.Flush() }()
		s.want(1, 1)
		q, admin := s.controller.ioQueues[0].Queue, s.controller.queues.Admin()
		late := association.Abort{Queue: q, CID: s.held[0].command.SQE.CID}
		said := make(chan fabric.Retention, 1)
		q.Shard.Call(func() { said <- q.Fabric.Retain(late.CID) })
		if r := <-said; r != fabric.RetainedOther {
			t.Fatalf("the queue says %d", r)
		}
		s.liar.shard.Call(func() { // to the first
			s.queues[0].held[0].Respond(0, 0)
			s.queues[0].held = nil
		})
		synctest.Wait()
		admin.Shard.Call(func() { s.controller.queues.Aborts.Said(late, fabric.RetainedOther) })
		s.want(1, 2)
		s.answer(capsule.StatusAbortRequested)
		<-results
	})
}

// TestNoAbortInShutdown: no Aborts are sent in a shutdown, since their commands have ended with their queues, and the
// controller would only fail them.
func TestNoAbortInShutdown(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		var s *slow
		var shutting bool
		var late atomic.Int32
		s = newSlow(t, func(l *liar, o *Options) {
			l.abort = func(a capsule.Abort) (uint64, bool) {
				s.aborted = append(s.aborted, a)
				return 0, false
			}
		})
		s.silent = func(c *capsule.Command) bool {
			switch {
			case capsule.AdminOpcode(c.Opcode) == capsule.AdminAbort && shutting:
				late.Add(1)
			case c.Opcode == capsule.OpcodeFabrics && c.FabricsType() == capsule.FabricsPropertySet && !shutting:
				shutting = true
				admin := s.queues[0]
				one := admin.held[0] // the one Abort that was sent
				admin.held = nil
				one.Respond(0, 0)
			}
			return false
		}
		ctx, cancel := context.WithCancel(context.Background())
		results := make(chan error, 10)
		for range 10 {
			go func() { results <- s.ns.FlushContext(ctx) }()
		}
		s.want(10, 0)
		cancel()
		s.want(10, 1)
		if err := s.controller.Disconnect(context.Background()); err != nil {
			t.Errorf("closed: %v", err)
		}
		for range 10 {
			<-results
		}
		if n := late.Load(); n > 0 {
			t.Errorf("%d Aborts after the shutdown began", n)
		}
	})
}

// TestQueueTimeout: each request of a queue has its own timeout.
func TestQueueTimeout(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		s := newSlow(t, func(_ *liar, o *Options) { o.QueueSize = 3 })
		q, err := s.ns.OpenQueue(8, nil)
		if err != nil {
			t.Fatal(err)
		}
		q.SetTimeout(time.Second)
		start := time.Now()
		for i := range 3 { // the third waits
			q.Submit([]backend.Request{{Tag: uint64(i), Op: backend.OpFlush}})
		}
		var rs [8]backend.Result
		wait := func(tag uint64, want error) {
			t.Helper()
			n := 0
			for ; n == 0; n = q.Poll(rs[:]) {
				began := time.Now()
				if err := q.Wait(); err != nil {
					t.Fatal(err)
				}
				if d := time.Since(began); d > 150*time.Millisecond {
					t.Errorf("a wait of %v", d)
				}
			}
			if n != 1 || rs[0].Tag != tag || !errors.Is(rs[0].Err, want) || want == nil && rs[0].Err != nil {
				t.Errorf("results %+v, want %d with %v", rs[:n], tag, want)
			}
		}
		wait(2, ErrDeadline)
		if d := time.Since(start); d < time.Second || d > 1500*time.Millisecond {
			t.Errorf("ended after %v", d)
		}
		if !errors.Is(rs[0].Err, context.DeadlineExceeded) {
			t.Errorf("%v is no %v", rs[0].Err, context.DeadlineExceeded)
		}
		s.want(2, 2)
		s.answer(capsule.StatusAbortRequested)
		wait(0, ErrDeadline)
		s.answer(0)
		wait(1, nil)
		q.SetTimeout(time.Hour)
		q.Submit([]backend.Request{{Tag: 4, Op: backend.OpFlush}})
		q.SetTimeout(0)
		q.Submit([]backend.Request{{Tag: 5, Op: backend.OpFlush}})
		time.Sleep(10 * time.Second)
		s.want(2, 2)
		s.answer(0)
		wait(4, nil)
		s.answer(0)
		wait(5, nil)
		if err := q.Close(); err != nil {
			t.Error(err)
		}
	})
}

// TestQueueTimeoutEnds: a request without a timeout does not inherit that of an earlier one in its slot.
func TestQueueTimeoutEnds(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		s := newSlow(t, nil)
		q, err := s.ns.OpenQueue(1, nil)
		if err != nil {
			t.Fatal(err)
		}
		var rs [1]backend.Result
		for i, limit := range []time.Duration{time.Second, 0} {
			q.SetTimeout(limit)
			q.Submit([]backend.Request{{Tag: uint64(i), Op: backend.OpFlush}})
			s.want(1, 0)
			time.Sleep(time.Duration(i) * 10 * time.Second)
			s.want(1, 0)
			s.answer(0)
			if n := q.Poll(rs[:]); n != 1 || rs[0].Err != nil {
				t.Errorf("request %d: %d results, %v", i, n, rs[0].Err)
			}
		}
		if err := q.Close(); err != nil {
			t.Error(err)
		}
	})
}

// TestCancelAtTarget: our own target aborts waiting commands.
func TestCancelAtTarget(t *testing.T) {
	for name, begin := range operations {
		inBubble(t, func(t *testing.T) {
			r := newRig(t, rigConfig{stores: []backend.Store{newStore(t, 1<<20, 512)}})
			c := r.connect(r.options())
			n, ns := r.namespace(c), r.sub.Namespaces()[0]
			if err := ns.Pause(20 * time.Second); err != nil {
				t.Fatal(err)
			}
			start := time.Now()
			for range 5 {
				ctx, cancel := context.WithTimeout(context.Background(), time.Second)
				if err := begin(ctx, n); !errors.Is(err, context.DeadlineExceeded) {
					t.Errorf("%s ended with %v", name, err)
				}
				cancel()
			}
			if d := time.Since(start); d > 6*time.Second {
				t.Errorf("%s: five seconds took %v", name, d)
			}
			if err := ns.Resume(); err != nil {
				t.Error(err)
			}
			if err := begin(context.Background(), n); name != "execute" && err != nil {
				t.Errorf("%s afterwards: %v", name, err)
			}
		})
	}
}
