package host

import (
	"bytes"
	"context"
	"errors"
	"testing"

	"github.com/nvmeof-go/nvmeof/backend"
	"github.com/nvmeof-go/nvmeof/nvmeof/internal/shard"
)

// TestUnsent: what is asked of a lost controller is known not to have been done.
func TestUnsent(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		r := newRig(t, rigConfig{stores: []backend.Store{newStore(t, 1<<20, 4096)}})
		c := r.connect(r.options())
		n := r.namespace(c)
		lost := errors.New("lost for the test")
		c.lost(lost)
		for _, l := range c.links() {
			<-l.ended
		}
		_, err := n.WriteAt(make([]byte, 4096), 0)
		var unsent *UnsentError
		if !errors.As(err, &unsent) || !errors.Is(err, lost) {
			t.Errorf("writing to a lost controller: %v", err)
		}
	})
}

// TestShutDownAfterLoss: a controller that was lost with an I/O queue is shut down by its
// admin queue, one that was lost with that queue is not.
func TestShutDownAfterLoss(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		r := newRig(t, rigConfig{stores: []backend.Store{newStore(t, 1<<20, 4096)}})
		for qid, want := range []bool{false, true} {
			c := r.connect(r.options())
			l := c.links()[qid]
			l.shard.Do(func() { l.queue.Fail(errors.New("lost for the test")) })
			<-c.Done()
			<-l.ended
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

// TestLossSaysMore: an operation of which one command was refused and another lost
// has an unknown outcome, whichever came first.
func TestLossSaysMore(t *testing.T) {
	lost := errors.New("lost for the test")
	l := &lane{link: &link{controller: &Controller{}}}
	o := &op{flying: 2, length: 1, pos: 1, done: func(*op) {}}
	o.fail(&StatusError{Command: "Write"})
	c := &chunk{op: o}
	c.request.Err = lost
	l.finish(c)
	if o.err != lost {
		t.Errorf("the operation fails with %v", o.err)
	}
}

// TestShareBuffers: memory of the caller's is used by two controllers.
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
			if m, _ := c.find(in); m == nil {
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
		for _, b := range all { // also of the controller that is gone
			if err := b.Close(); err != nil {
				t.Error(err)
			}
		}
		if err := slab.Close(); err != nil {
			t.Error(err)
		}
	})
}
