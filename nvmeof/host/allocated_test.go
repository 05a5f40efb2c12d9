package host

import (
	"context"
	"testing"

	"github.com/nvmeof-go/nvmeof/capsule"
)

// TestAllocated: the allocated size is between zero and the size, whatever the controller reports.
func TestAllocated(t *testing.T) {
	for _, tt := range []struct {
		nuse uint64
		want int64 // blocks
	}{{0, 0}, {5, 5}, {8, 8}, {9, 8}, {1 << 62, 8}, {1 << 63, 8}, {1<<64 - 1, 8}} {
		inBubble(t, func(t *testing.T) {
			l := newLiar(t)
			l.ns = func(id *capsule.IdentifyNamespace) { id.NSZE, id.NCAP, id.NUSE = 8, 8, tt.nuse }
			c, err := l.host.Connect(context.Background(), l.options())
			if err != nil {
				t.Fatal(err)
			}
			n, err := c.Namespace(context.Background(), 1)
			if err != nil {
				t.Fatal(err)
			}
			if got, err := n.Allocated(); err != nil || got != tt.want*int64(n.BlockSize()) {
				t.Errorf("NUSE %#x: %d bytes, %v, want %d blocks of %d", tt.nuse, got, err, tt.want, n.BlockSize())
			}
		})
	}
}
