package multipath

import (
	"bytes"
	"context"
	"errors"
	"testing"
	"time"

	"github.com/nvmeof-go/nvmeof/capsule"
	"github.com/nvmeof-go/nvmeof/nvmeof/host"
)

// TestUseRefused: the function's own error, or the error of a command that was not sent because it is invalid, ends the
// call. It does not affect the path.
func TestUseRefused(t *testing.T) {
	mine := errors.New("mine")
	for _, tt := range []struct {
		name string
		fn   func(context.Context, *host.Namespace) error
	}{
		{"the caller's", func(context.Context, *host.Namespace) error { return mine }},
		{"different lengths", func(ctx context.Context, ns *host.Namespace) error {
			return ns.CompareAndWrite(ctx, 0, make([]byte, 512), make([]byte, 1024))
		}},
		{"too long", func(ctx context.Context, ns *host.Namespace) error {
			b := make([]byte, 2<<20)
			return ns.CompareAndWrite(ctx, 0, b, bytes.Clone(b))
		}},
		{"a command too long", func(ctx context.Context, ns *host.Namespace) error {
			_, err := ns.Execute(ctx, capsule.Command{Opcode: capsule.Opcode(capsule.IOWrite)}, make([]byte, 2<<20))
			return err
		}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			inBubble(t, func(t *testing.T) {
				l := newLab(t, 1)
				n := l.namespace(l.connect(l.config()))
				for _, safety := range []Safety{Harmless, Repeatable, Once} {
					ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
					calls := 0
					err := n.Use(ctx, safety, func(ns *host.Namespace) error {
						calls++
						return tt.fn(ctx, ns)
					})
					cancel()
					var unknown *UnknownError
					if err == nil || errors.Is(err, context.DeadlineExceeded) || errors.As(err, &unknown) || calls != 1 {
						t.Errorf("safety %d: %v after %d calls", safety, err, calls)
					}
				}
				if st := n.sub.Paths()[0].Status(); st.State != StateLive {
					t.Errorf("the path is %v", st.State)
				}
			})
		})
	}
}

// TestLongDelay: if a controller requests a pause (CRD) longer than requests may wait, they do not wait longer.
func TestLongDelay(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		l := newLab(t, 1)
		cfg := l.config()
		cfg.Paths[0].FastIOFailTmo = 2 * time.Second
		n := l.namespace(l.connect(cfg))
		n.sub.Paths()[0].session.crdt[0] = 600 // a minute
		const crd1 = 1 << 11
		var failed *NoPathError
		d, err := took(func() error {
			return n.Use(context.Background(), Repeatable, func(*host.Namespace) error {
				return &host.StatusError{Command: "Write", Status: capsule.StatusNamespaceNotReady | crd1}
			})
		})
		if !errors.As(err, &failed) || !errors.As(err, new(*host.StatusError)) {
			t.Errorf("%v", err)
		}
		wantBetween(t, "the request", d, 2*time.Second, 3*time.Second)
	})
}
