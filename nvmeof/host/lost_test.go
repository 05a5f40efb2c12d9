package host

import (
	"bytes"
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/nvmeof-go/nvmeof/backend"
	"github.com/nvmeof-go/nvmeof/capsule"
	"github.com/nvmeof-go/nvmeof/nvmeof/internal/shard"
)

// TestUnsent: a command for a lost controller is reported as not executed.
func TestUnsent(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		r := newRig(t, rigConfig{stores: []backend.Store{newStore(t, 1<<20, 4096)}})
		c := r.connect(r.options())
		n := r.namespace(c)
		lost := errors.New("lost for the test")
		c.queues.Lose(lost)
		for _, q := range c.queues.Queues() {
			<-q.Ended()
		}
		block := make([]byte, 4096)
		for what, f := range map[string]func() error{
			"write":             func() error { return second(n.WriteAt(block, 0)) },
			"discard":           func() error { return n.Discard(context.Background(), Range{0, 4096}) },
			"compare and write": func() error { return n.CompareAndWrite(context.Background(), 0, block, block) },
			"execute": func() error {
				return second(n.Execute(context.Background(), capsule.Command{Opcode: capsule.Opcode(capsule.IOFlush)}, nil))
			},
			"admin": func() error {
				return second(c.IdentifyData(context.Background(), 0, capsule.Identify{CNS: capsule.CNSController}))
			},
		} {
			err := f()
			if !errors.As(err, new(*UnsentError)) || !errors.Is(err, lost) {
				t.Errorf("%s: %v", what, err)
			}
		}
	})
}

// TestUnsentWaits: a command that waits for a queue entry when the queue is lost is reported as not executed.
func TestUnsentWaits(t *testing.T) {
	for name, begin := range operations {
		inBubble(t, func(t *testing.T) {
			s := newSlow(t, func(_ *liar, o *Options) { o.QueueSize = 2 })
			results := make(chan error, 2)
			start := func() { results <- begin(context.Background(), s.ns) }
			go start()
			s.want(1, 0)
			go start()
			s.want(1, 0)
			lost := errors.New("lost for the test")
			ioq := s.controller.queues.Queues()[1]
			ioq.Shard.Do(func() { ioq.Fabric.Fail(lost) })
			unsent := 0
			for range 2 {
				err := <-results
				if !errors.Is(err, lost) {
					t.Errorf("%s: %v", name, err)
				}
				if errors.As(err, new(*UnsentError)) {
					unsent++
				}
			}
			if unsent != 1 {
				t.Errorf("%s: of one that was sent and one that was not %d are known not to have been sent", name, unsent)
			}
		})
	}
}

// TestLossComesFirst: the controller is already lost when requests of a lost queue are returned.
func TestLossComesFirst(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		s := newSlow(t, nil)
		found := make(chan error, 1)
		q, err := s.ns.OpenQueue(1, func() { found <- s.controller.Err() }) // in the loop that returns it
		if err != nil {
			t.Fatal(err)
		}
		q.Submit([]backend.Request{{Op: backend.OpFlush}})
		var rs [1]backend.Result
		if q.Poll(rs[:]) != 0 {
			t.Fatal("a result that there cannot be")
		}
		s.want(1, 0)
		lost := errors.New("lost for the test")
		ioq := s.controller.queues.Queues()[1]
		ioq.Shard.Do(func() { ioq.Fabric.Fail(lost) })
		if err := <-found; !errors.Is(err, lost) {
			t.Errorf("the controller's error is %v", err)
		}
		if q.Poll(rs[:]) != 1 || !errors.Is(rs[0].Err, lost) {
			t.Errorf("the request's error is %v", rs[0].Err)
		}
		if err := q.Close(); err != nil {
			t.Error(err)
		}
	})
}

// TestAdminEndsWithLoss: an outstanding admin command ends when an I/O queue is lost.
func TestAdminEndsWithLoss(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		s := newSlow(t, nil)
		s.silent = func(c *capsule.Command) bool { return c.Opcode == capsule.Opcode(capsule.AdminGetLogPage) }
		result := make(chan error, 1)
		go func() { result <- second(s.controller.Logs().ChangedNamespaces(context.Background())) }()
		synctest.Wait()
		lost, start := errors.New("lost for the test"), time.Now()
		ioq := s.controller.queues.Queues()[1]
		ioq.Shard.Do(func() { ioq.Fabric.Fail(lost) })
		if err := <-result; !errors.Is(err, lost) || time.Since(start) > time.Second {
			t.Errorf("ended with %v after %v", err, time.Since(start))
		}
	})
}

// TestShutDownAfterLoss: a controller that was lost because of an I/O queue is shut down through its admin queue; one
// whose admin queue was lost is not.
func TestShutDownAfterLoss(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		r := newRig(t, rigConfig{stores: []backend.Store{newStore(t, 1<<20, 4096)}})
		for qid, want := range []bool{false, true} {
			c := r.connect(r.options())
			q := c.queues.Queues()[qid]
			q.Shard.Do(func() { q.Fabric.Fail(errors.New("lost for the test")) })
			<-c.Done()
			<-q.Ended()
			if c.ShutDown() {
				t.Error("shut down before Disconnect")
			}
			if err := c.Disconnect(context.Background()); err != nil {
				t.Error(err)
			}
			if got := c.ShutDown(); got != want {
				t.Errorf("with queue %d lost, the controller was shut down: %v", qid, got)
			}
		}
		c := r.connect(r.options())
		if err := c.Disconnect(context.Background()); err != nil || !c.ShutDown() {
			t.Errorf("nothing lost: %v, shut down %v", err, c.ShutDown())
		}
	})
}

// TestCloseBesideDisconnect: Close of a host waits for controllers that are freeing their memory.
func TestCloseBesideDisconnect(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		r := newRig(t, rigConfig{stores: []backend.Store{newStore(t, 1<<20, 4096)}, host: Config{Shards: 1}})
		c := r.connect(r.options())
		admin, release := c.queues.Admin(), make(chan struct{})
		err := admin.Shard.Call(func() {
			before := admin.OnEnd
			admin.OnEnd = func() { // at the end of the last queue
				before()
				admin.Shard.Do(func() { <-release })
			}
		})
		if err != nil {
			t.Fatal(err)
		}
		ends := make(chan error, 2)
		go func() { ends <- c.Disconnect(context.Background()) }()
		synctest.Wait()
		go func() { ends <- r.host.Close() }()
		synctest.Wait()
		close(release)
		for range 2 {
			if err := <-ends; err != nil {
				t.Error(err)
			}
		}
	})
}

// TestShareBuffers: two controllers use memory of the caller.
func TestShareBuffers(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		r := newRig(t, rigConfig{stores: []backend.Store{newStore(t, 1<<20, 4096)}})
		slab, err := shard.NewSlab(8192)
		if err != nil {
			t.Fatal(err)
		}
		out, in := slab.Bytes()[:4096], slab.Bytes()[4096:]
		pattern(out, 1)
		var all []*Buffers
		for i := range 2 {
			c := r.connect(r.options())
			b, err := c.ShareBuffers(slab.Bytes())
			if err != nil {
				t.Fatal(err)
			}
			if m, _ := c.domain.Find(in); m == nil {
				t.Error("the memory is not known to the controller")
			}
			n := r.namespace(c)
			if _, err := n.WriteAt(out, int64(i)*4096); err != nil {
				t.Error(err)
			}
			clear(in)
			if _, err := n.ReadAt(in, int64(i)*4096); err != nil || !bytes.Equal(in, out) {
				t.Errorf("data differ, or %v", err)
			}
			all = append(all, b)
			if i == 1 {
				if err := c.Disconnect(context.Background()); err != nil {
					t.Error(err)
				}
			}
		}
		for _, b := range all { // including that of the disconnected controller
			if err := b.Close(); err != nil {
				t.Error(err)
			}
		}
		if err := slab.Close(); err != nil {
			t.Error(err)
		}
	})
}

// TestKeepAliveRefused: a controller that fails Keep Alive is lost. The error does not say that it has completed any of
// the requests that end with it: those that were sent may still be executed.
func TestKeepAliveRefused(t *testing.T) {
	for _, status := range []capsule.Status{capsule.StatusSQDeleted, capsule.StatusCommandSequence | capsule.StatusDNR} {
		inBubble(t, func(t *testing.T) {
			s := newSlow(t, func(l *liar, o *Options) {
				o.QueueSize, o.KeepAliveTmo = 2, 2*time.Second
				l.refuse = func(c *capsule.Command) capsule.Status {
					if capsule.AdminOpcode(c.Opcode) == capsule.AdminKeepAlive {
						return status
					}
					return 0
				}
			})
			results := make(chan error, 2) // of one that was sent, and one that waits for a queue entry
			for range cap(results) {
				go func() { results <- second(s.ns.WriteAt(make([]byte, 512), 0)) }()
			}
			<-s.controller.Done()
			for range cap(results) {
				if err := <-results; errors.As(err, new(*StatusError)) || errors.Is(err, backend.ErrInvalid) || !errors.Is(err, s.controller.Err()) {
					t.Errorf("%v: a write ends with %v, as if the controller had completed it", status, err)
				}
			}
			if reason := LossReason(s.controller.Err()); reason != "status" {
				t.Errorf("%v: the controller was lost for the reason %q", status, reason)
			}
		})
	}
}

// TestPartlySent: if the controller is lost after some commands of a request were executed, the error is not that
// nothing was sent.
func TestPartlySent(t *testing.T) {
	for name, f := range map[string]func(*Namespace) error{
		"discard": func(n *Namespace) error { return n.Discard(context.Background(), Range{0, 512}, Range{1024, 512}) },
		"copy":    func(n *Namespace) error { return n.Copy(context.Background(), 512, Range{0, 512}, Range{1024, 512}) },
	} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, func(t *testing.T) {
				s := newSlow(t, func(l *liar, o *Options) {
					o.QueueSize = 2
					l.identify = func(id *capsule.IdentifyController) {
						id.ONCS, id.OCFS = capsule.ONCSDatasetManagement|capsule.ONCSCopy, 1
					}
					l.nvm.DMRL = 1 // range in a command; and MSRC is 0, which is one too
				})
				result, other := make(chan error, 1), make(chan error, 1)
				go func() { result <- f(s.ns) }()
				s.want(1, 0)
				go func() { other <- s.ns.Flush() }() // for which the second command waits
				s.want(1, 0)
				s.answer(0)
				s.want(1, 0)
				lost := errors.New("lost for the test")
				s.controller.queues.Lose(lost)
				if err := <-result; errors.As(err, new(*UnsentError)) || !errors.Is(err, lost) {
					t.Errorf("%v", err)
				}
				<-other
			})
		})
	}
}
