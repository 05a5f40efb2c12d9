package target

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/nvmeof-go/nvmeof/capsule"
	"github.com/nvmeof-go/nvmeof/rdmatransport"
	"github.com/nvmeof-go/nvmeof/rdmatransport/softroce"
)

// takeSlowly stops the gremlin's posting of receives: responses get RNR NAKs, which it has told the target to
// retry without limit.
func (g *gremlin) takeSlowly() { g.r.call(func() { g.slow = true }) }

// takeOne posts one receive.
func (g *gremlin) takeOne() {
	g.r.call(func() {
		if len(g.spent) == 0 {
			return
		}
		i := g.spent[0]
		g.spent = g.spent[1:]
		if err := g.qp.PostRecv([]rdmatransport.RecvWR{g.recv(i)}); err != nil {
			panic(err)
		}
	})
}

// TestResponsesNotTaken: a host that answers but accepts no response loses the queue in bounded time, and with it
// the leases that others wait for. One that accepts a response now and then keeps it.
func TestResponsesNotTaken(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name string
		each time.Duration // interval between posted receives; 0: none
		ends bool
	}{
		{"takes nothing", 0, true},
		{"takes one every 20 s", 20 * time.Second, false},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				r := newRemote(t, overSoftroce(1, softroce.Faults{}))
				_, io := r.controller(1)
				g, end := r.gremlins()
				g.takeSlowly()
				read := rwCommand(capsule.IORead, 0, 1)
				read.Flags, read.SGL = capsule.FlagsSGL, g.keyed(0, 4096, false)
				for range 62 { // of 64 receives, Connect used one
					if e := g.do(read, nil); !e.Status.OK() {
						t.Fatalf("%+v", e)
					}
				}
				for range 20 {
					g.send(encode(read, nil))
					read.CID++
					time.Sleep(time.Millisecond)
				}
				began, took := time.Now(), 0
				for r.target.Undelivered() == 0 && time.Since(began) < 5*time.Minute {
					time.Sleep(max(c.each, 10*time.Second))
					if c.each > 0 {
						g.takeOne()
						time.Sleep(time.Second)
					}
					for len(g.got) > 0 {
						if !(<-g.got).ended {
							took++
						}
					}
				}
				if n := r.target.Undelivered(); (n == 1) != c.ends {
					t.Fatalf("after %v and %d responses %d queues have ended", time.Since(began), took, n)
				}
				if c.ends {
					io[0].do(rwCommand(capsule.IOWrite, 0, 1), 0, 4096)
				}
				end()
				r.close()
			})
		})
	}
}
