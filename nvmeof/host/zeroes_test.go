package host

import (
	"context"
	"errors"
	"testing"

	"github.com/nvmeof-go/nvmeof/backend"
	"github.com/nvmeof-go/nvmeof/capsule"
	"github.com/nvmeof-go/nvmeof/nvmeof/internal/fabric"
)

// TestZeroesFreed: Write Zeroes asks the controller to deallocate (DEAC) if the controller supports that (DLFEAT), and
// not otherwise: SPDK's target would fail the command.
func TestZeroesFreed(t *testing.T) {
	for _, dlfeat := range []uint8{0, capsule.DLFEATReadsZero, capsule.DLFEATWriteZeroes} {
		inBubble(t, func(t *testing.T) {
			l := newLiar(t)
			l.identify = func(id *capsule.IdentifyController) { id.ONCS |= capsule.ONCSWriteZeroes }
			l.ns = func(id *capsule.IdentifyNamespace) { id.DLFEAT = dlfeat }
			freed, kept := 0, 0 // owned by the loop
			l.io = func(_ *liarQueue, c *fabric.Command) {
				switch f := c.SQE.ReadWrite(); {
				case f.DEAC && dlfeat&capsule.DLFEATWriteZeroes == 0:
					c.Respond(capsule.StatusInvalidField, 0)
					return
				case f.DEAC:
					freed++
				default:
					kept++
				}
				c.Respond(0, 0)
			}
			c, err := l.host.Connect(context.Background(), l.options())
			if err != nil {
				t.Fatal(err)
			}
			n, err := c.Namespace(context.Background(), 1)
			if err != nil {
				t.Fatal(err)
			}
			for _, free := range []bool{false, true} {
				if err := n.WriteZeroes(0, 4096, free); err != nil {
					t.Errorf("DLFEAT %d, to be freed %v: %v", dlfeat, free, err)
				}
			}
			q, err := n.OpenQueue(1, nil)
			if err != nil {
				t.Fatal(err)
			}
			q.Submit([]backend.Request{{Op: backend.OpWriteZeroes, Length: 4096, Deallocate: true}})
			var rs [1]backend.Result
			for q.Poll(rs[:]) == 0 {
				_ = q.Wait() // the next Poll tells
			}
			if err := errors.Join(rs[0].Err, q.Close()); err != nil {
				t.Errorf("DLFEAT %d, by a queue: %v", dlfeat, err)
			}
			want := 0
			if dlfeat&capsule.DLFEATWriteZeroes != 0 {
				want = 2
			}
			l.shard.Call(func() {
				if freed != want || freed+kept != 3 {
					t.Errorf("DLFEAT %d: %d are to be freed, and %d not", dlfeat, freed, kept)
				}
			})
		})
	}
}
