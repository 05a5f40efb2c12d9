package target

import (
	"runtime"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/nvmeof-go/nvmeof/capsule"
	"github.com/nvmeof-go/nvmeof/rdmatransport"
)

// slowReservations save once for each value of their channel, and at once when it is closed.
type slowReservations struct {
	saved   atomic.Int32
	proceed chan struct{}
}

func (s *slowReservations) Load() ([]byte, error) { return nil, nil }
func (s *slowReservations) Save([]byte) error {
	<-s.proceed
	time.Sleep(2 * time.Millisecond) // a sync.Mutex is only handed over in order after a wait of 1 ms
	s.saved.Add(1)
	return nil
}

// TestReservationsInTurns: a host that sends changes of a reservation without end, each of which is saved, delays
// another host by only a few of them, and leaves nothing behind.
func TestReservationsInTurns(t *testing.T) {
	f := newFixture(t)
	slow := &slowReservations{proceed: make(chan struct{})}
	free := sync.OnceFunc(func() { close(slow.proceed) })
	t.Cleanup(free)
	_, err := f.sub.AddNamespace(NamespaceConfig{Store: newFakeStore(1 << 20), Reservations: slow})
	f.must(err)
	a, b := f.tenant("a", f.sub, 0), f.tenant("b", f.sub, 1)
	persist := func(h *tenant) *hostCommand {
		return reserveCommand(capsule.IOReservationRegister, 2, capsule.ReservationCommand{IgnoreKey: true, Action: capsule.ReplaceKey, Persist: capsule.PersistSet}, 0, h.key)
	}
	before := runtime.NumGoroutine()
	const sent, few = 100, 10
	for range sent {
		a.io.start(persist(a))
	}
	theirs := b.io.start(persist(b))
	if n := runtime.NumGoroutine() - before; n > few {
		t.Errorf("%d goroutines for the commands of two hosts", n)
	}
	for answered := false; !answered; {
		select {
		case <-theirs.response:
			answered = true
		case slow.proceed <- struct{}{}:
		}
	}
	if n := slow.saved.Load(); n > few {
		t.Errorf("the second host has waited for %d changes of the first", n)
	}
	a.io.fail(rdmatransport.ErrDisconnected)
	a.io.turns(1)
	free()
	<-a.io.closed
	if n := slow.saved.Load(); n > 2*few {
		t.Errorf("%d changes were saved, most of them of a host that had gone", n)
	}
}
