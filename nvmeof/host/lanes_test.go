package host

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/nvmeof-go/nvmeof/capsule"
	"github.com/nvmeof-go/nvmeof/nvmeof/internal/fabric"
)

// TestNamespacesTakeTurns: several namespaces are used at the same time, with responses in any order and cancellations,
// on short queues, with little memory and receive budget. All operations end, and all resources are returned.
func TestNamespacesTakeTurns(t *testing.T) {
	for seed := range uint64(40) {
		rng := rand.New(rand.NewPCG(seed, 1))
		depth := []int{2, 3, 5, 17}[rng.IntN(4)]
		budget := []int{0, 16 << 10, 100 << 10}[rng.IntN(3)]
		t.Run(fmt.Sprintf("seed %d, %d entries, budget %d", seed, depth, budget), func(t *testing.T) {
			inBubble(t, func(t *testing.T) { takeTurns(t, rng, depth, budget) })
		})
	}
}

// A crowd is a set of operations on several namespaces of a controller that responds in any order.
type crowd struct {
	*liar
	rng        *rand.Rand
	controller *Controller
	namespaces []*Namespace
	direct     []byte
	held       []*fabric.Command // owned by the loop
	ended      [60]error         // of operations
}

func takeTurns(t *testing.T, rng *rand.Rand, depth, budget int) {
	w := &crowd{liar: newHung(t, budget), rng: rng}
	w.io = func(q *liarQueue, c *fabric.Command) {
		if q.failed {
			c.Respond(0, 0)
			return
		}
		w.held = append(w.held, c)
	}
	o := w.options()
	o.NrIOQueues, o.QueueSize, o.BounceMemory, o.Timeout = 1+rng.IntN(2), depth, 1<<20, -1
	var err error
	if w.controller, err = w.host.Connect(t.Context(), o); err != nil {
		t.Fatal(err)
	}
	w.direct = registered(t, w.controller, 64<<10)
	for i := range 1 + rng.IntN(4) {
		n, err := w.controller.Namespace(t.Context(), capsule.NSID(i+1))
		if err != nil {
			t.Fatal(err)
		}
		w.namespaces = append(w.namespaces, n)
	}
	var running sync.WaitGroup
	for i := range w.ended {
		running.Go(w.operation(t.Context(), &w.ended[i]))
	}
	over := make(chan struct{})
	go func() {
		running.Wait()
		close(over)
	}()
	w.answerAll(over)
	w.wantNothingLeft()
}

// operation starts a random operation, possibly with a short timeout.
func (w *crowd) operation(ctx context.Context, ended *error) func() {
	n, size := w.namespaces[w.rng.IntN(len(w.namespaces))], 512<<w.rng.IntN(8)
	kind, wait := w.rng.IntN(5), time.Hour
	if w.rng.IntN(3) == 0 {
		wait = time.Duration(w.rng.IntN(50)) * time.Millisecond
	}
	return func() {
		ctx, end := context.WithTimeout(ctx, wait)
		defer end()
		switch kind {
		case 0:
			*ended = second(n.ReadAtContext(ctx, make([]byte, size), 0))
		case 1:
			*ended = second(n.WriteAtContext(ctx, make([]byte, size), 0))
		case 2:
			*ended = second(n.ReadAtContext(ctx, w.direct[:size], 0))
		case 3:
			*ended = n.FlushContext(ctx)
		default:
			*ended = second(n.Execute(ctx, capsule.Command{Opcode: capsule.Opcode(capsule.IOWrite)}, make([]byte, size)))
		}
	}
}

// answerAll completes a few commands each millisecond until all operations have ended.
func (w *crowd) answerAll(over chan struct{}) {
	w.t.Helper()
	for limit := time.Now().Add(time.Minute); time.Now().Before(limit); time.Sleep(time.Millisecond) {
		synctest.Wait()
		w.liar.shard.Call(func() {
			for range min(len(w.held), 1+w.rng.IntN(3)) {
				i := w.rng.IntN(len(w.held))
				c := w.held[i]
				w.held = append(w.held[:i], w.held[i+1:]...)
				if c.Remote() && c.Direction() == capsule.ControllerToHost {
					c.RespondData(w.queues[0].piece(c), 0)
				} else {
					c.Respond(0, 0)
				}
			}
		})
		select {
		case <-over:
			return
		default:
		}
	}
	w.t.Fatal("something does not end")
}

func (w *crowd) wantNothingLeft() {
	for i, err := range w.ended {
		if err != nil && !errors.Is(err, context.DeadlineExceeded) {
			w.t.Errorf("operation %d: %v", i, err)
		}
	}
	s := w.host.shards[0]
	synctest.Wait()
	s.Call(func() {
		if n := s.Budget().Used() + s.SlowBudget().Used(); n != 0 {
			w.t.Errorf("%d bytes of the budgets are taken", n)
		}
		if n := w.controller.pools[0].Arena.Free(); n != 1<<20 {
			w.t.Errorf("%d bytes of the buffers are free", n)
		}
	})
}
