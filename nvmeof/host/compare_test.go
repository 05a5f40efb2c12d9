package host

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"strings"
	"sync"
	"testing"

	"github.com/nvmeof-go/nvmeof/backend"
	"github.com/nvmeof-go/nvmeof/capsule"
	"github.com/nvmeof-go/nvmeof/nvmeof/internal/fabric"
)

func TestCompareAndWrite(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		r := newRig(t, rigConfig{stores: []backend.Store{newStore(t, 1<<20, 4096)}})
		n := r.namespace(r.connect(r.options()))
		ctx := context.Background()
		old, next := make([]byte, 4096), bytes.Repeat([]byte{7}, 4096)
		if err := n.CompareAndWrite(ctx, 8192, old, next); err != nil {
			t.Fatal(err)
		}
		got := make([]byte, 4096)
		if _, err := n.ReadAt(got, 8192); err != nil || !bytes.Equal(got, next) {
			t.Errorf("not written, or %v", err)
		}
		err := n.CompareAndWrite(ctx, 8192, old, make([]byte, 4096))
		var status *StatusError
		if !errors.Is(err, backend.ErrMiscompare) || !errors.As(err, &status) || status.Command != "Compare" {
			t.Errorf("what is there differs: %v", err)
		}
		if _, err := n.ReadAt(got, 8192); err != nil || !bytes.Equal(got, next) {
			t.Errorf("written all the same, or %v", err)
		}
		if n.MaxCompareAndWrite() != 4096 {
			t.Errorf("at most %d bytes", n.MaxCompareAndWrite())
		}
		for want, err := range map[string]error{
			"the controller supports at most 4096": n.CompareAndWrite(ctx, 0, make([]byte, 8192), make([]byte, 8192)),
			"the numbers must be equal":            n.CompareAndWrite(ctx, 0, make([]byte, 512), make([]byte, 4096)),
			ErrUnaligned.Error():                   n.CompareAndWrite(ctx, 0, make([]byte, 512), make([]byte, 512)),
		} {
			if err == nil || !strings.Contains(err.Error(), want) {
				t.Errorf("%v, want %q", err, want)
			}
		}
		if err := n.SetWriteProtection(ctx, capsule.WriteProtected); err != nil {
			t.Fatal(err)
		}
		if err := n.CompareAndWrite(ctx, 8192, next, old); !errors.As(err, &status) || status.Command != "Write" || !errors.Is(err, backend.ErrReadOnly) {
			t.Errorf("on a namespace that is protected: %v", err)
		}
	})
}

// TestCounter: many goroutines increment a counter with CompareAndWrite, in queues as short as possible, and no
// increment is lost.
func TestCounter(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		r := newRig(t, rigConfig{stores: []backend.Store{newStore(t, 1<<20, 512)}, host: Config{Shards: 2}})
		o := r.options()
		o.QueueSize, o.NrIOQueues = 3, 2
		n := r.namespace(r.connect(o))
		const goroutines, rounds = 6, 20
		var wg sync.WaitGroup
		for range goroutines {
			wg.Go(func() {
				old, next := make([]byte, 512), make([]byte, 512)
				for done := 0; done < rounds; {
					if _, err := n.ReadAt(old, 0); err != nil {
						t.Error(err)
						return
					}
					binary.LittleEndian.PutUint64(next, binary.LittleEndian.Uint64(old)+1)
					switch err := n.CompareAndWrite(context.Background(), 0, old, next); {
					case err == nil:
						done++
					case !errors.Is(err, backend.ErrMiscompare):
						t.Error(err)
						return
					}
				}
			})
		}
		wg.Wait()
		b := make([]byte, 8)
		if _, err := n.ReadAt(b, 0); err != nil || binary.LittleEndian.Uint64(b) != goroutines*rounds {
			t.Errorf("counted to %d, %v", binary.LittleEndian.Uint64(b), err)
		}
		o.QueueSize = 2
		short := r.namespace(r.connect(o))
		if err := short.CompareAndWrite(context.Background(), 0, make([]byte, 512), make([]byte, 512)); err == nil || !strings.Contains(err.Error(), "have no room") {
			t.Errorf("in a queue without room: %v", err)
		}
	})
}

// TestFusedErrors: of two statuses, the one that is not a consequence of the other is returned.
func TestFusedErrors(t *testing.T) {
	cases := []struct {
		compare, write capsule.Status
		want           string
	}{
		{capsule.StatusCompareFailure, capsule.StatusFailedFused, "Compare: compare failure"},
		{capsule.StatusFailedFused, capsule.StatusLBAOutOfRange, "Write: LBA out of range"},
		{capsule.StatusSuccess, capsule.StatusWriteFault, "Write: write fault"},
		{capsule.StatusFailedFused, capsule.StatusFailedFused, "Compare: "},
		{capsule.StatusSuccess, capsule.StatusMissingFused, "Write: "},
	}
	inBubble(t, func(t *testing.T) {
		l := newLiar(t)
		l.identify = func(i *capsule.IdentifyController) { i.FUSES = capsule.FUSESCompareWrite }
		next := 0
		l.io = func(_ *liarQueue, c *fabric.Command) {
			if c.SQE.Flags.Fuse() == capsule.FuseFirst {
				c.Respond(cases[next].compare, 0)
			} else {
				c.Respond(cases[next].write, 0)
			}
		}
		o := l.options()
		o.NrIOQueues = 1
		c, err := l.host.Connect(context.Background(), o)
		if err != nil {
			t.Fatal(err)
		}
		n, err := c.Namespace(context.Background(), 1)
		if err != nil {
			t.Fatal(err)
		}
		for i, x := range cases {
			next = i
			err := n.CompareAndWrite(context.Background(), 0, make([]byte, 512), make([]byte, 512))
			if err == nil || !strings.Contains(strings.ToLower(err.Error()), strings.ToLower(x.want)) {
				t.Errorf("%v and %v: %v, want %q", x.compare, x.write, err, x.want)
			}
		}
	})
}

// TestCancelFused: both commands are aborted; if they were not sent, they are withdrawn together.
func TestCancelFused(t *testing.T) {
	for _, depth := range []int{3, 8} {
		inBubble(t, func(t *testing.T) {
			s := newSlow(t, func(l *liar, o *Options) {
				l.identify = func(i *capsule.IdentifyController) { i.FUSES = capsule.FUSESCompareWrite }
				o.QueueSize = depth
			})
			ctx, cancel := context.WithCancel(context.Background())
			results := make(chan error, 3)
			for range 3 {
				go func() {
					results <- s.ns.CompareAndWrite(ctx, 0, make([]byte, 512), make([]byte, 512))
				}()
			}
			sent := (depth - 1) / 2 * 2
			s.want(sent, 0)
			cancel()
			s.want(sent, sent)
			for range 3 - sent/2 {
				if err := <-results; !errors.Is(err, context.Canceled) {
					t.Errorf("not sent: %v", err)
				}
			}
			for range sent / 2 {
				s.answer(capsule.StatusAbortRequested)
				s.answer(capsule.StatusAbortRequested)
				if err := <-results; !errors.Is(err, context.Canceled) {
					t.Errorf("aborted: %v", err)
				}
			}
			s.want(0, sent)
		})
	}
}
