package host

import (
	"context"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/nvmeof-go/nvmeof/capsule"
)

// TestKeepAliveBesideMany: as many slow admin commands as the queue has room for keep neither Keep Alive from the controller nor
// the shutdown.
func TestKeepAliveBesideMany(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		l := newLiar(t)
		var alive atomic.Int32
		l.silent = func(c *capsule.Command) bool {
			if capsule.AdminOpcode(c.Opcode) == capsule.AdminKeepAlive {
				alive.Add(1)
			}
			return capsule.AdminOpcode(c.Opcode) == capsule.AdminGetLogPage
		}
		o := l.options()
		o.KeepAliveTmo, o.Timeout = 4*time.Second, time.Minute
		o.Event = func(capsule.AsyncEvent) {}
		c, err := l.host.Connect(context.Background(), o)
		if err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithCancel(context.Background())
		var readers sync.WaitGroup
		for range 2 * adminDepth {
			readers.Go(func() { // ends with ctx
				_, _ = c.Logs().SMART(ctx, capsule.NSIDBroadcast)
			})
		}
		time.Sleep(20 * time.Second)
		if err := c.Err(); err != nil || alive.Load() < 9 {
			t.Errorf("%d keep alives in 20 s: %v", alive.Load(), err)
		}
		cancel()
		readers.Wait()
		if err := c.Disconnect(context.Background()); err != nil || !c.ShutDown() {
			t.Errorf("disconnecting: %v", err)
		}
	})
}

// TestAbortBesideMany: as many slow admin commands as the queue has room for keep no Abort from the controller, nor Keep Alive.
func TestAbortBesideMany(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		l := newLiar(t)
		var alive, aborts atomic.Int32
		l.silent = func(c *capsule.Command) bool {
			switch capsule.AdminOpcode(c.Opcode) {
			case capsule.AdminKeepAlive:
				alive.Add(1)
			case capsule.AdminAbort:
				aborts.Add(1)
				return true // which takes its time, too
			}
			return capsule.AdminOpcode(c.Opcode) == capsule.AdminGetLogPage
		}
		o := l.options()
		o.KeepAliveTmo, o.Timeout = 4*time.Second, time.Minute
		c, err := l.host.Connect(context.Background(), o)
		if err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithCancel(context.Background())
		one, end := context.WithCancel(ctx)
		var readers sync.WaitGroup
		for i := range 2 * adminDepth {
			with := ctx
			if i < 2 {
				with = one
			}
			readers.Go(func() { // ends with ctx
				_, _ = c.Logs().SMART(with, capsule.NSIDBroadcast)
			})
			synctest.Wait()
		}
		end()
		time.Sleep(20 * time.Second)
		if err := c.Err(); err != nil || alive.Load() < 9 || aborts.Load() == 0 {
			t.Errorf("%d keep alives and %d Aborts in 20 s: %v", alive.Load(), aborts.Load(), err)
		}
		cancel()
		readers.Wait()
		if err := c.Disconnect(context.Background()); err != nil || !c.ShutDown() {
			t.Errorf("disconnecting: %v", err)
		}
	})
}
