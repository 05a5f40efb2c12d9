package host

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"testing"

	"github.com/nvmeof-go/nvmeof/backend"
	"github.com/nvmeof-go/nvmeof/capsule"
	"github.com/nvmeof-go/nvmeof/nvmeof/internal/fabric"
)

// cut returns buffers of various sizes that together contain want, or zeroes. Some are in registered memory, and most
// of them have whole blocks.
func cut(rng *rand.Rand, want, registered []byte, fill bool) (bufs [][]byte) {
	const block = 512
	for at := 0; len(want) > 0; {
		size := min(len(want), rng.IntN(1<<rng.IntN(18)))
		if rng.IntN(3) > 0 {
			size = min(len(want), (size+block-1)&^(block-1))
		}
		b := make([]byte, size)
		if rng.IntN(2) == 0 {
			b = registered[at:][:size]
			at += size
		}
		clear(b)
		if fill {
			copy(b, want)
		}
		bufs, want = append(bufs, b), want[size:]
	}
	return bufs
}

// TestVectored writes and reads buffers of various sizes, registered or not, and compares with the same bytes in one
// buffer.
func TestVectored(t *testing.T) {
	for _, shared := range []bool{false, true} {
		inBubble(t, func(t *testing.T) {
			const block = 512
			r := newRig(t, rigConfig{stores: []backend.Store{newStore(t, 8<<20, block)}, budget: 200_000})
			o := r.options()
			o.SharedKeys, o.QueueSize, o.BounceMemory = shared, 4, 2<<20
			c := r.connect(o)
			n := r.namespace(c)
			buffers, err := c.NewBuffers(8 << 20)
			if err != nil {
				t.Fatal(err)
			}
			rng, ctx := rand.New(rand.NewPCG(7, 7)), context.Background()
			for round := range 60 {
				want := make([]byte, block*(1+rng.IntN(1<<rng.IntN(13))))
				pattern(want, round)
				off := int64(rng.IntN(int(n.Size())-len(want))) &^ (block - 1)
				if got, err := n.WriteVectored(ctx, cut(rng, want, buffers.Bytes(), true), off); got != len(want) || err != nil {
					t.Fatalf("writing %d bytes: %d, %v", len(want), got, err)
				}
				whole := make([]byte, len(want))
				if _, err := n.ReadAt(whole, off); err != nil || !bytes.Equal(whole, want) {
					t.Fatalf("round %d: %d bytes at %d were written otherwise, or %v", round, len(want), off, err)
				}
				bufs := cut(rng, want, buffers.Bytes(), false)
				if got, err := n.ReadVectored(ctx, bufs, off); got != len(want) || err != nil {
					t.Fatalf("reading %d bytes: %d, %v", len(want), got, err)
				}
				if !bytes.Equal(bytes.Join(bufs, nil), want) {
					t.Fatalf("round %d: %d bytes at %d were read otherwise", round, len(want), off)
				}
			}
			if got, err := n.ReadVectored(ctx, nil, 0); got != 0 || err != nil {
				t.Errorf("of no buffers: %d, %v", got, err)
			}
			for want, bufs := range map[error][][]byte{
				ErrUnaligned:  {make([]byte, 100), make([]byte, 400)},
				ErrOutOfRange: {make([]byte, 4<<20), make([]byte, 4<<20), make([]byte, block)},
			} {
				if _, err := n.WriteVectored(ctx, bufs, 0); !errors.Is(err, want) {
					t.Errorf("%v, want %v", err, want)
				}
			}
		})
	}
}

// TestParts: a command has as many parts as the controller accepts and as fit into its byte limit.
func TestParts(t *testing.T) {
	for _, c := range []struct {
		msdbd, mdts uint8
		ioccsz      uint32
		want        string // lengths
	}{
		{1, 0, 68, "[4096 4096 4096 4096 4096 4096 4096 4096 4096 4096 8192]"},
		{4, 0, 68, "[16384 16384 8192 8192]"},
		{16, 0, 68, "[32768 8192 8192]"}, // this host's own bound
		{0, 0, 68, "[32768 8192 8192]"},
		{16, 0, 4, "[4096 4096 4096 4096 4096 4096 4096 4096 4096 4096 8192]"}, // no room for a list
		{16, 0, 6, "[8192 8192 8192 8192 8192 8192]"},
		{4, 1, 68, "[8192 8192 8192 8192 8192 8192]"},
	} {
		inBubble(t, func(t *testing.T) {
			l := newLiar(t)
			l.identify = func(i *capsule.IdentifyController) { i.MSDBD, i.MDTS, i.IOCCSZ = c.msdbd, c.mdts, c.ioccsz }
			var lengths []int
			l.io = func(_ *liarQueue, x *fabric.Command) {
				if n := int(x.SQE.ReadWrite().Blocks) * 512; n != x.Length() {
					t.Errorf("command of %d bytes describes %d", n, x.Length())
				}
				lengths = append(lengths, x.Length())
				x.Respond(0, 0)
			}
			o := l.options()
			o.NrIOQueues, o.QueueSize = 1, 2 // one after the other
			controller, err := l.host.Connect(context.Background(), o)
			if err != nil {
				t.Fatal(err)
			}
			n, err := controller.Namespace(context.Background(), 1)
			if err != nil {
				t.Fatal(err)
			}
			buffers, err := controller.NewBuffers(1 << 20)
			if err != nil {
				t.Fatal(err)
			}
			var bufs [][]byte
			for i := range 10 {
				bufs = append(bufs, buffers.Bytes()[i*10000:][:4096])
			}
			bufs = append(bufs, make([]byte, 1000), make([]byte, 7192))
			if _, err := n.WriteVectored(context.Background(), bufs, 0); err != nil {
				t.Fatal(err)
			}
			if got := fmt.Sprint(lengths); got != c.want {
				t.Errorf("MSDBD %d, MDTS %d, IOCCSZ %d: commands of %v, want %v", c.msdbd, c.mdts, c.ioccsz, got, c.want)
			}
		})
	}
}
