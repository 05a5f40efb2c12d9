package target

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/nvmeof-go/nvmeof/capsule"
	"github.com/nvmeof-go/nvmeof/internal/boottime"
)

// TestGatewayLease: each command for a group looks at the time until which it is served.
func TestGatewayLease(t *testing.T) {
	f, g := withGateway(t)
	f.must(f.export(newFakeStore(1 << 20)).SetGroup(2))
	f.must(g.Serve(1, 1))
	f.must(g.Serve(2, 1))
	a := f.associate(testHostNQN, f.listen("192.0.2.1:4420"))
	for _, c := range []struct {
		until time.Duration
		want  capsule.Status
	}{{time.Hour, capsule.StatusSuccess}, {-time.Millisecond, elsewhere}, {time.Hour, capsule.StatusSuccess}} {
		g.Extend(boottime.Now()+c.until, []capsule.ANAGroup{1})
		a.wantIO(c.want, 1)
		a.wantIO(capsule.StatusSuccess, 2)
	}
	g.Extend(boottime.Now()-time.Hour, nil)
	a.wantIO(capsule.StatusSuccess, 1)
}

// TestLeaseHeldUp: a gateway that was held up until another one has taken a group over executes no command for it that
// had begun before, unless the store has it already: the other has what hosts have written since.
func TestLeaseHeldUp(t *testing.T) {
	for _, test := range []struct {
		name    string
		waiting bool // for room in the store, and not for its data
		over    bool // the lease
	}{{"for data", false, false}, {"for data, and the lease is over", false, true}, {"for the store", true, false}, {"for the store, and the lease is over", true, true}} {
		t.Run(test.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				f, g := withGateway(t)
				s := newFakeStore(1 << 20)
				f.export(s)
				f.must(g.Serve(1, 1))
				_, io := f.both()
				io.identify(2)
				lease := time.Hour
				if test.over {
					lease = time.Second
				}
				g.Extend(boottime.Now()+lease, []capsule.ANAGroup{1})
				if test.waiting {
					s.mu.Lock()
					s.room = 1
					s.mu.Unlock()
					s.set(true, nil)
					io.start(writeOf(2))
				}
				write := writeOf(2)
				write.holdFetch = !test.waiting
				io.start(write)
				synctest.Wait()
				s.ops()
				io.call(func() { time.Sleep(2 * time.Second) })
				if !test.waiting {
					io.call(func() { // its data have come meanwhile
						if write.fetching {
							write.fetching = false
							io.q.requests[write.index].ready()
						}
					})
				}
				s.set(false, nil)
				want := capsule.StatusSuccess
				if test.over {
					want = elsewhere
				}
				if r := <-write.response; r.status != want {
					t.Errorf("the write: %v, want %v", r.status, want)
				}
				if ops := s.ops(); (len(ops) == 0) != test.over {
					t.Errorf("the store has got %+v", ops)
				}
				f.close2(t)
			})
		})
	}
}
