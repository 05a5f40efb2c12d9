package targetcommand

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/spf13/cobra"
	"golang.org/x/sys/unix"

	"github.com/nvmeof-go/nvmeof/cmd/nvmeof/internal/signals"
)

// TestUnlessHung checks that a signal ends a start that does not answer within a limited time, and does not abandon a
// target that serves.
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

// TestEnd checks that a target that stops takes the time that it needs, unless a store hangs: then the target is
// abandoned after a limited time, with the store's name in the error.
func TestEnd(t *testing.T) {
	failed := errors.New("failed")
	for _, c := range []struct {
		name         string
		takes, hangs time.Duration // the time for the target, and until a store answers
		want         string
		after        time.Duration
	}{
		{"at once", 0, 0, "failed", 0},
		{"many files", 50 * time.Second, 0, "failed", 50 * time.Second},
		{"a store that is late", 19 * time.Second, 19 * time.Second, "failed", 19 * time.Second},
		{"a store that hangs", time.Hour, time.Hour, "although the store of a.img, that of b.img has not finished", stopTime},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				from := time.Now()
				err := end(func() error { time.Sleep(c.takes); return failed }, func() []string {
					if time.Since(from) < c.hangs {
						return []string{"a.img", "b.img"}
					}
					return nil
				})
				if err == nil || !strings.Contains(err.Error(), c.want) || time.Since(from) != c.after {
					t.Errorf("%v after %v, want %s after %v", err, time.Since(from), c.want, c.after)
				}
				time.Sleep(c.takes) // until it has ended
			})
		})
	}
}

// TestQuiet checks that output of a start is held back until it is released.
func TestQuiet(t *testing.T) {
	var out bytes.Buffer
	q := &quiet{w: &out}
	step := func(text, want string) {
		t.Helper()
		if n, err := q.Write([]byte(text)); n != len(text) || err != nil || out.String() != want {
			t.Errorf("%d, %v; %q is written, want %q", n, err, &out, want)
		}
	}
	step("a", "")
	step("b", "")
	q.release()
	step("c", "abc")
	q.release()
	step("d", "abcd")
}

// TestSlowStart checks that a slow start shows its output as it continues, even if it writes nothing more, and that a
// start that fails soon shows only its error.
func TestSlowStart(t *testing.T) {
	signals.On(unix.SIGPIPE, func() {})() // the runtime's goroutine for signals must not be in a bubble
	for takes, want := range map[time.Duration]string{quietTime - 1: "", quietTime + 1: "warning"} {
		synctest.Test(t, func(t *testing.T) {
			var out bytes.Buffer
			cmd := new(cobra.Command)
			cmd.SetContext(t.Context())
			cmd.SetErr(&out)
			err := new(Daemon).begin(cmd, func(_ *cobra.Command, d *Daemon, _ *start) error {
				fmt.Fprint(d.ErrOut, "warning")
				time.Sleep(takes)
				synctest.Wait()
				if out.String() != want {
					t.Errorf("after %v %q is written, want %q", takes, &out, want)
				}
				return errors.New("failed")
			})
			if err == nil {
				t.Error("no error")
			}
		})
	}
}

// TestOpening checks that the path named as hanging is the first of those that are still being opened.
func TestOpening(t *testing.T) {
	var o opening
	for _, step := range []struct {
		do         func(string)
		path, want string
	}{
		{o.begin, "a", "a"}, {o.begin, "b", "a"}, {o.end, "b", "a"}, {o.begin, "b", "a"}, {o.end, "a", "b"}, {o.end, "b", ""},
	} {
		if step.do(step.path); o.String() != step.want {
			t.Errorf("after %s it is %q, want %q", step.path, o.String(), step.want)
		}
	}
}

// TestOpened checks that a file system that does not answer when the audit or the events are opened delays the start
// for a limited time, and is named then. A signal meanwhile names it too.
func TestOpened(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var o opening
		hangs := make(chan struct{})
		begin := time.Now()
		time.AfterFunc(time.Second, func() {
			if o.String() != "/hangs" {
				t.Errorf("%q is being opened", o.String())
			}
		})
		f, err := opened(&o, "/hangs", func() (*os.File, error) {
			<-hangs
			return os.Stdout, nil
		})
		if f != nil || err == nil || !strings.Contains(err.Error(), "/hangs could not be opened within 30s") || time.Since(begin) != openTime || o.String() != "" {
			t.Errorf("%v, %v after %v, opening %q", f, err, time.Since(begin), o.String())
		}
		close(hangs)
		if f, err := opened(&o, "/there", func() (*os.File, error) { return os.Stdout, nil }); f != os.Stdout || err != nil {
			t.Errorf("%v, %v", f, err)
		}
	})
}
