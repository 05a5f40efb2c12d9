package multipath

import (
	"testing"
	"time"

	"github.com/nvmeof-go/nvmeof/backend"
	"github.com/nvmeof-go/nvmeof/backend/backendtest"
)

// TestUnsentWrites: of writes on a path that is lost, those that were sent wait until its target has ended them; those
// for which its queue had no room are sent on another path at once.
func TestUnsentWrites(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		const writes, entries = 8, 3
		l := newLab(t, 2)
		slow := backendtest.NewFaulty(l.store)
		l.sides[0].stop()
		l.sides[0].store = slow
		l.sides[0].start()
		cfg := l.config()
		cfg.Paths[0].Options.NrIOQueues, cfg.Paths[0].Options.QueueSize = 1, entries+1
		n := l.namespace(l.connect(cfg))
		if used(t, n) != 0 {
			t.Fatal("the first path is not used")
		}
		fault := slow.Inject(backendtest.Rule{Ops: []backend.Op{backend.OpWrite}, Hold: backendtest.HoldRequest})
		defer fault.Release()
		q, err := n.OpenQueue(writes, nil)
		if err != nil {
			t.Fatal(err)
		}
		var rs []backend.Request
		for i := range writes {
			rs = append(rs, backend.Request{Op: backend.OpWrite, Offset: int64(i) * 512, Length: 512, Buf: make([]byte, 512)})
		}
		if q.Submit(rs) != writes {
			t.Fatal("not all are taken")
		}
		time.Sleep(100 * time.Millisecond)
		l.sever(l.sides[0], true)
		begun := time.Now()
		late := 0
		for done := 0; done < writes; {
			var results [writes]backend.Result
			for _, r := range results[:q.Poll(results[:])] {
				done++
				if r.Err != nil {
					t.Error(r.Err)
				}
				if time.Since(begun) > 5*time.Second { // the keep alive ends within 3 s, and with three of them 6 s more
					late++
				}
			}
			time.Sleep(10 * time.Millisecond)
		}
		if late != entries {
			t.Errorf("%d writes waited, %d were sent", late, entries)
		}
		l.must(q.Close())
	})
}
