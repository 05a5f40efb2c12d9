package target

import (
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/nvmeof-go/nvmeof/capsule"
)

// TestExpiryWaitsForWrites is row 68 for commands in flight: the association ends, but its controller exists until
// the store has completed the last write, so that no write follows those of a successor (section 6.4 of the
// catalogue).
func TestExpiryWaitsForWrites(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFixture(t)
		s := newFakeStore(1 << 20)
		f.export(s)
		h, id := f.connectAdmin(2000)
		io := f.connectIO(id, 1, 1)
		s.set(true, nil)
		c := io.start(writeOf(2))
		f.within(io, "the store has it", func() bool { return s.inFlight() == 1 })
		<-h.closed
		time.Sleep(time.Minute)
		select {
		case <-io.closed:
			t.Error("the I/O queue went before its write")
		default:
		}
		if f.sub.controller(id) == nil {
			t.Error("the controller went before its write")
		}
		s.set(false, nil)
		<-io.closed
		if f.sub.controller(id) != nil || c.answers > 1 {
			t.Errorf("the controller is left, or the write was answered %d times", c.answers)
		}
		f.connectAdmin(0)
		f.close2(t)
	})
}

// TestTimeoutsOfHosts is row 44 for whole associations: without a timeout, and with the longest one, a silent
// association stays. With the shortest one it gets the granularity, not a millisecond.
func TestTimeoutsOfHosts(t *testing.T) {
	for kato, ends := range map[uint32]bool{0: false, 1: true, 0xffffffff: false} {
		t.Run(fmt.Sprint(kato), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				f := newFixture(t, func(c *Config) { c.Revalidate = -1 })
				start := time.Now()
				h, _ := f.connectAdmin(kato)
				time.Sleep(990 * time.Millisecond)
				h.property(capsule.PropertyCSTS)
				time.Sleep(6 * time.Hour)
				select {
				case <-h.closed:
					if !ends {
						t.Errorf("ended within %v", time.Since(start))
					}
				default:
					if ends {
						t.Error("lives though it was silent for hours")
					}
					h.property(capsule.PropertyCSTS)
				}
				f.close2(t)
			})
		})
	}
}

// offer sends a command unless the queue has ended, like the wire.
func (h *hostQueue) offer(c *hostCommand) (sent bool) {
	c.h, c.response = h, make(chan response, 1)
	c.sqe.Flags |= capsule.FlagsSGL
	h.call(func() {
		if sent = !h.ended; sent {
			c.index, h.vacant = h.vacant[0], h.vacant[1:]
			h.active[c.index] = c
			h.q.take(c, &c.sqe, c.index)
		}
	})
	return sent
}

// TestExpiryMeetsTheHost is row 69: whatever the host does at the moment of expiry, there is one outcome, and
// nothing is freed twice (which would close a channel twice).
func TestExpiryMeetsTheHost(t *testing.T) {
	property := func(cc capsule.CC) func(admin, io *hostQueue) {
		return func(admin, _ *hostQueue) {
			admin.offer(fabricsCommand(capsule.FabricsPropertySet,
				capsule.Property{Size: 4, Offset: uint32(capsule.PropertyCC), Value: uint64(cc)}))
		}
	}
	begin := func(t *testing.T) (f *fixture, admin, io *hostQueue) {
		f = newFixture(t)
		admin, id := f.connectAdmin(2000)
		return f, admin, f.connectIO(id, 1, 1)
	}
	var after time.Duration // the clock is the bubble's: it is always the same
	synctest.Test(t, func(t *testing.T) {
		f, admin, _ := begin(t)
		start := time.Now()
		<-admin.closed
		after = time.Since(start)
		f.close2(t)
	})
	for name, act := range map[string]func(admin, io *hostQueue){
		"Keep Alive": func(admin, _ *hostQueue) { admin.offer(adminCommand(capsule.AdminKeepAlive, nil, nil)) },
		"I/O":        func(_, io *hostQueue) { io.offer(readOf(1)) },
		"reset":      property(linuxCC),
		"shutdown":   property(linuxCC.WithEnable(true).WithShutdown(capsule.ShutdownNormal)),
		"event request": func(admin, _ *hostQueue) {
			admin.offer(adminCommand(capsule.AdminAsyncEvent, nil, nil))
		},
		"disconnect": func(admin, io *hostQueue) { admin.fail(&rdmaError{}); io.fail(&rdmaError{}) },
	} {
		for _, early := range []time.Duration{time.Microsecond, 1, 0, -1} {
			t.Run(fmt.Sprint(name, ", early by ", early), func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					f, admin, io := begin(t)
					time.Sleep(after - early)
					act(admin, io)
					<-io.closed // now or one timeout later
					<-admin.closed
					if n := len(f.target.Controllers()); n != 0 {
						t.Errorf("%d controllers are left", n)
					}
					if n := f.logged("keep alive timeout expired, connection dropped"); n > 1 {
						t.Errorf("%d lines about one expiry", n)
					}
					_, again := f.both()
					again.wantOK(readOf(1))
					f.wantNothingHeld(again)
					f.close2(t)
				})
			})
		}
	}
}
