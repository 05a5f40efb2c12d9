package connections

import (
	"context"
	"errors"
	"fmt"
	"net"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/nvmeof-go/nvmeof/backend"
)

type volatile struct{ backend.Store }

func (v volatile) Info() backend.Info {
	info := v.Store.Info()
	info.Volatile = true
	return info
}

// TestLeave checks that before the last controller of a subsystem is disconnected, its disks are ended and all of its
// namespaces flushed. One that hangs or fails is named, and does not delay the others for long. While another
// controller stays, nothing is ended.
func TestLeave(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t)
		r.connect("a", "192.0.2.1", "nvme0")
		r.connect("a", "192.0.2.2", "nvme1")
		r.connect("b", "192.0.2.1", "nvme2")
		r.spaces("a", 1, 2, 3)
		r.spaces("b", 1)
		s := r.fake.subs["a"]
		var flushed []string
		flush := func(name string, end func(context.Context) error) func(context.Context) error {
			return func(ctx context.Context) error {
				r.front.mu.Lock()
				defer r.front.mu.Unlock()
				if len(r.front.ended) != 3 || r.controller("nvme1").Status().State != Live {
					t.Errorf("%s is flushed when %q have ended", name, r.front.ended)
				}
				flushed = append(flushed, name)
				return end(ctx)
			}
		}
		broken := errors.New("broken")
		r.fake.mu.Lock()
		for i, end := range []func(context.Context) error{
			func(context.Context) error { return nil },
			func(context.Context) error { return broken },
			func(context.Context) error { return errors.New("nobody asks") },
		} {
			n := &s.spaces[i]
			if n.Flush = flush(fmt.Sprint(n.ID), end); i < 2 {
				n.Store = volatile{n.Store}
			}
		}
		r.fake.mu.Unlock()
		s.changed()
		synctest.Wait()

		if _, err := r.holder.Disconnect(disconnectRequest{Device: "nvme0"}.wants); err != nil || len(r.front.ended)+len(flushed) > 0 {
			t.Errorf("%v, %q have ended and %q are flushed while a controller stays", err, r.front.ended, flushed)
		}
		began := time.Now()
		names, err := r.holder.Disconnect(disconnectRequest{NQN: "a"}.wants)
		if !errors.Is(err, broken) || !strings.Contains(err.Error(), "nvme-subsys0: namespace 2 was not flushed: broken") || !slices.Equal(names, []string{"nvme1"}) {
			t.Errorf("disconnected %q, %v", names, err)
		}
		if took := time.Since(began); took > 0 || len(flushed) != 2 || !slices.Equal(r.front.ended, []string{"nvme0n1", "nvme0n2", "nvme0n3"}) {
			t.Errorf("it took %v; %q have ended, %d are flushed", took, r.front.ended, len(flushed))
		}
		if !slices.ContainsFunc(r.log, func(line string) bool { return strings.Contains(line, "namespace 2 was not flushed: broken") }) {
			t.Errorf("logged %q", r.log)
		}
		r.published("nvme2n1")
		if err := r.holder.Close(); err != nil {
			t.Error(err)
		}
	})
}

// TestLeaveWhileHung checks that a namespace that does not answer its flush is disconnected all the same, also at the
// end of the process.
func TestLeaveWhileHung(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t)
		r.connect("a", "192.0.2.1", "nvme0")
		r.spaces("a", 1)
		s, answers := r.fake.subs["a"], make(chan struct{})
		r.fake.mu.Lock()
		s.spaces[0].Store = volatile{s.spaces[0].Store}
		s.spaces[0].Flush = func(context.Context) error { <-answers; return nil }
		r.fake.mu.Unlock()
		s.changed()
		synctest.Wait()
		began := time.Now()
		err := r.holder.Close()
		if took := time.Since(began); took != FlushTime || err == nil || !strings.Contains(err.Error(), "no answer within 5s") || !s.closed {
			t.Errorf("%v after %v; the subsystem is closed: %v", err, took, s.closed)
		}
		close(answers)
	})
}

// TestDisconnectOfOneThatEnds checks that a process that ends before it has accepted a connection to its socket is
// treated as one without controllers.
func TestDisconnectOfOneThatEnds(t *testing.T) {
	l, err := net.Listen("unix", filepath.Join(t.TempDir(), "1.0.sock"))
	if err != nil {
		t.Fatal(err)
	}
	p := &Process{Socket: l.Addr().String()}
	time.AfterFunc(50*time.Millisecond, func() { _ = l.Close() }) // the request is in its backlog
	if names, err := p.Disconnect(t.Context(), "", "nvme0", ""); len(names) > 0 || err != nil {
		t.Errorf("%q, %v", names, err)
	}
}

// TestLeaveWhileLost checks that a disconnect while the target is away reports the namespaces with unflushed writes,
// since the clients that wrote may have gone already.
func TestLeaveWhileLost(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t)
		r.connect("a", "192.0.2.1", "nvme0")
		r.spaces("a", 1, 2, 3)
		s := r.fake.subs["a"]
		r.fake.mu.Lock()
		for i := range s.spaces {
			n := &s.spaces[i]
			n.Store, n.Unflushed = volatile{n.Store}, func() bool { return n.ID == 2 }
			n.Flush = func(context.Context) error { return errors.New("there is no path") }
		}
		r.fake.mu.Unlock()
		s.changed()
		r.controller("nvme0").set(Connecting, errors.New("lost it"))
		synctest.Wait()
		_, err := r.holder.Disconnect(disconnectRequest{NQN: "a"}.wants)
		if err == nil || !errors.Is(err, errNoPath) || !strings.Contains(err.Error(), "namespace 2 was not flushed") || strings.Contains(err.Error(), "namespace 1") {
			t.Errorf("disconnected: %v", err)
		}
		if err := r.holder.Close(); err != nil {
			t.Error(err)
		}
	})
}
