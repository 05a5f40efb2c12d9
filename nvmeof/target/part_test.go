package target

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/nvmeof-go/nvmeof/capsule"
	"github.com/nvmeof-go/nvmeof/rdmatransport"
)

// TestHostLeavesAdminQueueFirst: a host that disconnects its admin queue first, as SPDK does for a reset, has a
// moment to disconnect the others itself; nothing is executed in it. A host that loses the admin queue does not.
func TestHostLeavesAdminQueueFirst(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFixture(t)
		s := newFakeStore(1 << 20)
		f.export(s)
		for name, c := range map[string]struct {
			by    error
			leave bool // the I/O queues too
			want  time.Duration
		}{
			"leaves":          {rdmatransport.ErrDisconnected, true, 0},
			"leaves one only": {rdmatransport.ErrDisconnected, false, farewellTime},
			"is lost":         {&rdmaError{}, false, 0},
		} {
			admin, id := f.connectAdmin(0)
			io := f.connectIO(id, 1, 1)
			io.wantOK(writeOf(2))
			start := time.Now()
			admin.fail(c.by)
			synctest.Wait()
			if c.by == rdmatransport.ErrDisconnected {
				if io.gone() {
					t.Errorf("%s: the I/O queue is ended at once", name)
				}
				s.ops()
				io.wantStatus(capsule.StatusSQDeleted, writeOf(2))
				if len(s.ops()) != 0 {
					t.Errorf("%s: a write is executed", name)
				}
			}
			if c.leave {
				io.fail(rdmatransport.ErrDisconnected)
			}
			<-io.closed
			<-admin.closed
			if d := time.Since(start); d != c.want {
				t.Errorf("%s: the I/O queue is there for %v, want %v", name, d, c.want)
			}
			synctest.Wait()
			if f.sub.controller(id) != nil {
				t.Errorf("%s: the controller is left", name)
			}
		}
		f.close2(t)
	})
}
