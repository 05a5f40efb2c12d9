package rbd

import (
	"sync/atomic"
	"testing"
	"unsafe"

	"golang.org/x/sys/unix"
)

// run does in Go what the shim's thread does: it takes all rings of the list and ends their calls.
func (s *starter) run(rings map[uint64]*ring) {
	for atomic.LoadUint32(&s.over) == 0 {
		at := atomic.SwapUint64(&s.list, 0)
		if at == 0 {
			atomic.StoreUint32(&s.asleep, 1)
			if atomic.LoadUint64(&s.list) == 0 && atomic.LoadUint32(&s.over) == 0 {
				_, _, _ = unix.Syscall6(unix.SYS_FUTEX, uintptr(unsafe.Pointer(&s.asleep)), futexWakePrivate&^1, 1, 0, 0, 0)
			}
			atomic.StoreUint32(&s.asleep, 0)
		}
		for at != 0 {
			r := rings[at]
			at = r.next
			atomic.StoreUint32(&r.listed, 0)
			for begun := atomic.LoadUint64(&r.begun); r.taken != begun; r.taken++ {
				c := r.calls[r.taken&r.mask]
				r.push(c.id, int32(c.length))
			}
			atomic.AddInt64(&r.running, -1)
		}
	}
}

// TestStarter: every call of several rings reaches the starter once, including calls that are added while it looks or
// falls asleep.
func TestStarter(t *testing.T) {
	const depth, rounds = 4, 5000
	s := &starter{}
	rings := map[uint64]*ring{}
	var all []*ring
	for range 3 {
		r, err := newRing(depth, heap)
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, r)
		rings[uint64(uintptr(unsafe.Pointer(r.header)))] = r
	}
	ended := make(chan struct{})
	go func() { // ends with over
		defer close(ended)
		s.run(rings)
	}()
	for n := range rounds {
		for _, r := range all {
			calls := make([]call, 1+n%depth)
			for i := range calls {
				calls[i] = call{id: uint32(i), length: uint64(n + i)}
			}
			r.begin(len(calls))
			s.add(r, calls)
		}
		for _, r := range all {
			for got, out := 0, [depth]outcome{}; got < 1+n%depth; {
				r.wait(1000)
				k := r.reap(out[:])
				for _, o := range out[:k] {
					if int(o.id) != got || int(o.result) != n+got {
						t.Fatalf("round %d: call %d ended as %+v", n, got, o)
					}
					got++
				}
			}
		}
	}
	atomic.StoreUint32(&s.over, 1)
	atomic.StoreUint32(&s.asleep, 0)
	_, _, _ = unix.Syscall(unix.SYS_FUTEX, uintptr(unsafe.Pointer(&s.asleep)), futexWakePrivate, 1)
	<-ended
	for _, r := range all {
		if err := r.close(); err != nil {
			t.Error(err)
		}
	}
}
