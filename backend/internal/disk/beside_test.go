package disk

import (
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/nvmeof-go/nvmeof/backend"
)

// A discard, which io_uring does not support, is made by the second engine. Its end is reported in each of the ways in
// which an owner may wait. On a regular file it fails with ENOTTY, which is remembered.
func TestBeside(t *testing.T) {
	for _, engine := range []Engine{EngineAuto, EngineThreads} {
		for _, watch := range []bool{false, true} {
			cfg := Config{Info: backend.Info{Size: 1 << 20, Deallocate: true}, Device: true, Options: Options{Engine: engine}}
			d := openDisk(t, cfg)
			d.noPunch.Store(true)
			wake := make(chan struct{}, 1)
			q, err := d.NewQueue(4, func() {
				select {
				case wake <- struct{}{}:
				default:
				}
			})
			if err != nil {
				t.Fatal(err)
			}
			w, watchable := q.(backend.Watchable)
			if watch && !watchable {
				continue // threads
			}
			for range 3 {
				d.noDiscard.Store(false)
				q.Submit([]backend.Request{{Op: backend.OpDeallocate, Length: 1 << 20}, {Op: backend.OpFlush}})
				var got [2]backend.Result
				for left := 2; left > 0; {
					n := q.Poll(got[:])
					for _, r := range got[:n] {
						if r.Err != nil {
							t.Fatal(r.Err)
						}
					}
					if left -= n; n > 0 {
						continue
					}
					if watch {
						await(t, w)
						continue
					}
					select {
					case <-wake:
					case <-time.After(5 * time.Second):
						t.Fatal("no notification")
					}
				}
				if !d.noDiscard.Load() {
					t.Error("nothing was learnt of the discard")
				}
			}
			// Close waits for a call that has begun.
			d.noDiscard.Store(false)
			q.Submit([]backend.Request{{Op: backend.OpDeallocate, Length: 1 << 20}})
			if err := q.Close(); err != nil {
				t.Error(err)
			}
			if err := d.Close(); err != nil {
				t.Error(err)
			}
		}
	}
}

// await sleeps like a shard.
func await(t *testing.T, w backend.Watchable) {
	t.Helper()
	fds := []unix.PollFd{{Fd: int32(w.Descriptor()), Events: unix.POLLIN}}
	if !w.Arm() {
		return
	}
	if n, err := unix.Poll(fds, 5000); n == 0 && err == nil {
		t.Fatal("the descriptor reports nothing")
	}
}

// An event that arrives after its request was polled for, when the queue was armed with nothing in flight, is cleared
// by the next call of Arm: otherwise it would end each sleep of the owner.
func TestLateEvent(t *testing.T) {
	d := openDisk(t, Config{Info: backend.Info{Size: 1 << 20}})
	defer d.Close()
	q, err := d.NewQueue(4, nil)
	if err != nil {
		t.Fatal(err)
	}
	defer q.Close()
	w, ok := q.(backend.Watchable)
	if !ok {
		t.Skip("the engine of this machine has no descriptor: no io_uring")
	}
	fds := []unix.PollFd{{Fd: int32(w.Descriptor()), Events: unix.POLLIN}}
	w.Arm()
	unix.Write(w.Descriptor(), []byte{1, 0, 0, 0, 0, 0, 0, 0}) // as the kernel
	w.Arm()
	if n, _ := unix.Poll(fds, 0); n != 0 {
		t.Error("the descriptor is readable with nothing in flight")
	}
}
