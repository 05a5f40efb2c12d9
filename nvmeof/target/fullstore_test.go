package target

import (
	"testing"
	"time"

	"github.com/nvmeof-go/nvmeof/capsule"
)

// TestFullStoreSleeps: a shard sleeps while operations, a Flush among them, wait for room in a store that others
// use, even if the store has less room than it was opened with. All are executed when there is room, one after the
// other.
func TestFullStoreSleeps(t *testing.T) {
	const depth = 4
	for _, tt := range []struct {
		name string
		room int // of the store
	}{{"full", depth}, {"less room than it says", depth - 1}} {
		t.Run(tt.name, func(t *testing.T) {
			f := newFixture(t, func(c *Config) { c.BackendDepth = depth })
			s := newFakeStore(1 << 20)
			s.room = tt.room
			f.export(s)
			_, io := f.both()
			s.set(true, nil)
			var all []*hostCommand
			for i := range 2*depth + 1 {
				c := ioCommand(capsule.IOWrite, 2, capsule.ReadWrite{SLBA: capsule.LBA(8 * i), Blocks: 8}, make([]byte, 4096))
				if i%2 == 0 {
					c = ioCommand(capsule.IOFlush, 2, nil, nil)
				}
				all = append(all, io.start(c))
			}
			io.turns(4)
			if n := s.inFlight(); n != tt.room {
				t.Errorf("the store has %d operations, want %d", n, tt.room)
			}
			turns := func() (n uint64) {
				io.call(func() { n = io.q.shard.Stats().Turns })
				return n
			}
			before := turns()
			time.Sleep(20 * time.Millisecond)
			if n := turns() - before; n > 10 {
				t.Errorf("%d turns in 20 ms, with nothing to do", n)
			}
			for i := 0; i < len(all); i += tt.room {
				for s.inFlight() < min(tt.room, len(all)-i) {
					time.Sleep(time.Millisecond)
				}
				s.step()
				for _, c := range all[i:min(i+tt.room, len(all))] {
					if r := <-c.response; !r.status.OK() {
						t.Errorf("%v", r.status)
					}
				}
			}
		})
	}
}
