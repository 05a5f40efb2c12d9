package targetcommand

import (
	"bytes"
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"
)

// TestUnlessHung checks that a signal ends what does not answer in bounded time, and nothing
// that has begun to serve.
func TestUnlessHung(t *testing.T) {
	failed := errors.New("failed")
	for _, c := range []struct {
		name   string
		takes  time.Duration
		serves bool
		want   error
		after  time.Duration
	}{
		{"ends before the signal", time.Second, false, failed, time.Second},
		{"ends soon after it", 11 * time.Second, false, failed, 11 * time.Second},
		{"does not end", time.Hour, false, context.Canceled, 10*time.Second + hungTime},
		{"serves", time.Hour, true, failed, time.Hour},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
				defer cancel()
				begun := make(chan struct{})
				if c.serves {
					close(begun)
				}
				from := time.Now()
				err := unlessHung(ctx, begun, func() string { return "/disk" }, func() error {
					time.Sleep(c.takes)
					return failed
				})
				if !errors.Is(err, c.want) || time.Since(from) != c.after {
					t.Errorf("%v after %v, want %v after %v", err, time.Since(from), c.want, c.after)
				}
				time.Sleep(c.takes) // until f has ended
			})
		})
	}
}

// TestQuiet checks that what a start writes is held back until it serves, or takes long.
func TestQuiet(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var out bytes.Buffer
		q := &quiet{w: &out, since: time.Now()}
		step := func(text, want string) {
			t.Helper()
			if n, err := q.Write([]byte(text)); n != len(text) || err != nil || out.String() != want {
				t.Errorf("%d, %v; %q is written, want %q", n, err, &out, want)
			}
		}
		step("a", "")
		step("b", "")
		time.Sleep(quietTime)
		step("c", "abc")
		step("d", "abcd")
		out.Reset()
		q = &quiet{w: &out, since: time.Now()}
		step("a", "")
		q.release()
		step("b", "ab")
	})
}
