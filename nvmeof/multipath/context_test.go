package multipath

import (
	"bytes"
	"context"
	"errors"
	"testing"
	"time"
)

// TestContext: when its context ends, a request that waits for a path ends at once. A write that was lost with its path
// ends when the target has ended it, and is not repeated on another path.
func TestContext(t *testing.T) {
	const limit = time.Second
	b := make([]byte, 512)
	fill(b, 0, 1)
	for _, tt := range []struct {
		name string
		lost bool // the path is known to be lost when the request begins
		run  func(context.Context, *Namespace) error
		wait func(fence time.Duration) (least, most time.Duration)
	}{
		{"read without a path", true, func(ctx context.Context, n *Namespace) error {
			_, err := n.ReadAtContext(ctx, make([]byte, 512), 0)
			return err
		}, func(time.Duration) (least, most time.Duration) { return limit, limit }},
		{"write without a path", true, func(ctx context.Context, n *Namespace) error {
			_, err := n.WriteAtContext(ctx, b, 0)
			return err
		}, func(time.Duration) (least, most time.Duration) { return limit, limit }},
		{"flush without a path", true, func(ctx context.Context, n *Namespace) error { return n.FlushContext(ctx) },
			func(time.Duration) (least, most time.Duration) { return limit, limit }},
		{"read when the path is lost", false, func(ctx context.Context, n *Namespace) error {
			_, err := n.ReadAtContext(ctx, make([]byte, 512), 0)
			return err
		}, func(time.Duration) (least, most time.Duration) { return limit, 5 * time.Second }},
		{"write when the path is lost", false, func(ctx context.Context, n *Namespace) error {
			_, err := n.WriteAtContext(ctx, b, 0)
			return err
		}, func(fence time.Duration) (least, most time.Duration) { return limit + fence, 5*time.Second + fence }},
	} {
		t.Run(tt.name, func(t *testing.T) {
			inBubble(t, func(t *testing.T) {
				l := newLab(t, 1)
				n := l.namespace(l.connect(l.config()))
				p := n.sub.Paths()[0]
				fence := p.session.fence
				l.sever(l.sides[0], true)
				if tt.lost {
					l.await(p, StateLost)
				}
				ctx, cancel := context.WithTimeout(context.Background(), limit)
				defer cancel()
				d, err := took(func() error { return tt.run(ctx, n) })
				if !errors.Is(err, context.DeadlineExceeded) {
					t.Errorf("the error is %v", err)
				}
				least, most := tt.wait(fence)
				wantBetween(t, tt.name, d, least, most)
				l.sever(l.sides[0], false)
				got := make([]byte, 512)
				if _, err := n.ReadAt(got, 0); err != nil || !bytes.Equal(got, make([]byte, 512)) {
					t.Errorf("there is something on the disk, or %v", err)
				}
			})
		})
	}
}

// TestOpeningHangs: opening a namespace can be canceled while a command on another path hangs.
func TestOpeningHangs(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		l := newLab(t, 1)
		s := l.connect(l.config())
		l.sever(l.sides[0], true)
		go func() { _, _ = s.Namespace(context.Background(), 1) }() // ends when the path is found to be lost
		time.Sleep(time.Millisecond)
		ctx, cancel := context.WithTimeout(context.Background(), 100*time.Millisecond)
		defer cancel()
		d, err := took(func() error { _, err := s.Namespace(ctx, 1); return err })
		if !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("%v", err)
		}
		wantBetween(t, "opening beside one that hangs", d, 100*time.Millisecond, 110*time.Millisecond)
	})
}
