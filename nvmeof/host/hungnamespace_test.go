package host

import (
	"context"
	"net/netip"
	"testing"
	"testing/synctest"
	"time"

	"github.com/nvmeof-go/nvmeof/backend"
	"github.com/nvmeof-go/nvmeof/capsule"
	"github.com/nvmeof-go/nvmeof/nvmeof/internal/fabric"
	"github.com/nvmeof-go/nvmeof/rdmatransport"
	"github.com/nvmeof-go/nvmeof/rdmatransport/rdmatest"
)

// hung is the namespace whose commands the controller does not complete, well one whose commands it does.
const hung, well = capsule.NSID(1), capsule.NSID(2)

// newHung returns a controller with both namespaces. budget is the receive budget of the host.
func newHung(t *testing.T, budget int) *liar {
	n := rdmatest.NewLoopback()
	l := newLiarOn(t, func(at netip.Addr) (rdmatransport.Device, error) {
		d, err := n.Open(at, rdmatest.Attrs())
		if err == nil && at == netip.MustParseAddr("192.0.2.1") {
			rdmatest.SetReceiveBudget(d, budget)
		}
		return d, err
	})
	l.ns = func(id *capsule.IdentifyNamespace) { id.NSZE = 1 << 20 }
	l.io = func(q *liarQueue, c *fabric.Command) {
		switch {
		case c.SQE.NSID == hung && !q.failed:
			q.held = append(q.held, c)
		case c.Remote() && c.Direction() == capsule.ControllerToHost:
			c.RespondData(q.piece(c), 0)
		default:
			c.Respond(0, 0)
		}
	}
	return l
}

// hogs are uses of the hung namespace that leave requests outstanding.
var hogs = map[string]func(ctx context.Context, t *testing.T, n *Namespace){
	"reads without a copy": func(_ context.Context, t *testing.T, n *Namespace) {
		fillQueue(t, n, backend.OpRead, registered(t, n.controller, 16<<10), 300)
	},
	"reads into any memory": func(_ context.Context, t *testing.T, n *Namespace) {
		fillQueue(t, n, backend.OpRead, make([]byte, 1<<20), 100)
	},
	"writes": func(_ context.Context, t *testing.T, n *Namespace) {
		fillQueue(t, n, backend.OpWrite, make([]byte, 1<<20), 100)
	},
	"flushes": func(_ context.Context, t *testing.T, n *Namespace) { fillQueue(t, n, backend.OpFlush, nil, 300) },
	"blocking reads": func(ctx context.Context, _ *testing.T, n *Namespace) {
		for range 300 {
			go n.ReadAtContext(ctx, make([]byte, 100<<10), 0) //nolint:errcheck // it has none to give
		}
	},
	"commands of the caller": func(ctx context.Context, _ *testing.T, n *Namespace) {
		for range 300 {
			cmd := capsule.Command{Opcode: capsule.Opcode(capsule.IOWrite)}
			go n.Execute(ctx, cmd, make([]byte, 100<<10)) //nolint:errcheck // as above
		}
	},
}

func registered(t *testing.T, c *Controller, size int) []byte {
	b, err := c.NewBuffers(size)
	if err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

func fillQueue(t *testing.T, n *Namespace, op backend.Op, buf []byte, requests int) {
	q, err := n.OpenQueue(requests, func() {})
	if err != nil {
		t.Fatal(err)
	}
	for range requests {
		if q.Submit([]backend.Request{{Op: op, Buf: buf, Length: int64(len(buf))}}) != 1 {
			t.Fatal("a request was not taken")
		}
	}
}

// TestHungNamespace: a namespace whose commands do not complete leaves receive budget, queue entries and buffers for
// other namespaces, on the same connection and on others.
func TestHungNamespace(t *testing.T) {
	for name, hog := range hogs {
		for where, budget := range map[string]int{"": 0, ", small receive buffer": 64 << 10} {
			t.Run(name+where, func(t *testing.T) {
				inBubble(t, func(t *testing.T) {
					l := newHung(t, budget)
					o := l.options()
					o.NrIOQueues = 1
					ctx, cancel := context.WithCancel(t.Context())
					var cs []*Controller
					for range 2 {
						c, err := l.host.Connect(ctx, o)
						if err != nil {
							t.Fatal(err)
						}
						cs = append(cs, c)
					}
					open := func(c *Controller, id capsule.NSID) *Namespace {
						n, err := c.Namespace(ctx, id)
						if err != nil {
							t.Fatal(err)
						}
						return n
					}
					bad, beside, elsewhere := open(cs[0], hung), open(cs[0], well), open(cs[1], well)
					hog(ctx, t, bad)
					synctest.Wait()
					copied, direct := make([]byte, 16<<10), registered(t, cs[0], 16<<10)
					begin := time.Now()
					for what, use := range map[string]func(context.Context) error{
						"a read":                func(ctx context.Context) error { return second(beside.ReadAtContext(ctx, copied, 0)) },
						"a read without a copy": func(ctx context.Context) error { return second(beside.ReadAtContext(ctx, direct, 0)) },
						"a write":               func(ctx context.Context) error { return second(beside.WriteAtContext(ctx, copied, 0)) },
						"a flush":               beside.FlushContext,
						"a command of the caller": func(ctx context.Context) error {
							return second(beside.Execute(ctx, capsule.Command{Opcode: capsule.Opcode(capsule.IOWrite)}, copied))
						},
						"Identify":                     func(ctx context.Context) error { return second(cs[0].Namespaces(ctx)) },
						"a read on another connection": func(ctx context.Context) error { return second(elsewhere.ReadAtContext(ctx, copied, 0)) },
					} {
						limited, end := context.WithTimeout(ctx, 2*time.Second)
						if err := use(limited); err != nil {
							t.Errorf("%s: %v", what, err)
						}
						end()
					}
					if took := time.Since(begin); took > 300*time.Millisecond {
						t.Errorf("it took %v", took)
					}
					cancel()
					for _, c := range cs {
						if err := c.Disconnect(context.Background()); err != nil {
							t.Error(err)
						}
					}
					s, left := l.host.shards[0], 0
					if err := s.Call(func() { left = s.Budget().Used() + s.SlowBudget().Used() }); err != nil || left != 0 {
						t.Errorf("%d bytes of the budgets are lost, %v", left, err)
					}
				})
			})
		}
	}
}
