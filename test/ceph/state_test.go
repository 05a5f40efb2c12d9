package ceph

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"os"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/nvmeof-go/nvmeof/internal/group/state"
	"github.com/nvmeof-go/nvmeof/internal/group/state/rados"
	"github.com/nvmeof-go/nvmeof/internal/group/state/statetest"
)

// group opens a store of a group. If name is empty the group is new to the cluster.
func group(t *testing.T, c *Cluster, name string) *rados.Store {
	t.Helper()
	s, err := rados.Open(t.Context(), rados.Config{Conf: c.Conf, Pool: "rbd", Group: name, Timeout: 5 * time.Second})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	})
	return s
}

func newGroup() string { return fmt.Sprintf("g-%d-%d", os.Getpid(), images.Add(1)) }

// TestState: no increment of several stores is lost, and values of all sizes that one store writes are read by another.
func TestState(t *testing.T) {
	c := cluster(t)
	name := newGroup()
	stores := []*rados.Store{group(t, c, name), group(t, c, name), group(t, c, name)}
	var wg sync.WaitGroup
	for _, s := range stores {
		wg.Go(func() { addUp(t, s, 20) })
	}
	wg.Wait()
	got, err := stores[0].Get(t.Context(), "sum")
	if err != nil || len(got.Entries) != 1 || binary.BigEndian.Uint64(got.Entries[0].Value) != 60 {
		t.Fatalf("the sum: %+v, %v, want 60", got, err)
	}
	var large []state.Op
	for i := range 90 {
		large = append(large, state.Op{Key: fmt.Sprintf("large/\x00%02d", i), Value: bytes.Repeat([]byte{byte(i)}, i*128)})
	}
	for _, ops := range [][]state.Op{large, {{Key: "large/z", Value: make([]byte, state.MaxValue)}}} {
		if r, err := stores[1].Txn(t.Context(), state.Txn{Then: ops}); err != nil || !r.Done {
			t.Fatalf("large values: %+v, %v", r, err)
		}
	}
	got, err = stores[2].Get(t.Context(), "large/")
	if err != nil || len(got.Entries) != 91 {
		t.Fatalf("%d entries, %v", len(got.Entries), err)
	}
	for i, o := range large {
		if e := got.Entries[i]; e.Key != o.Key || !bytes.Equal(e.Value, o.Value) {
			t.Errorf("%q: %d bytes under %q, want %d", o.Key, len(e.Value), e.Key, len(o.Value))
		}
	}
}

// TestStateManyKeys: more keys than the cluster lists in one operation are read as of one revision while another store
// changes the counter all the time.
func TestStateManyKeys(t *testing.T) {
	c := cluster(t)
	name := newGroup()
	s, other := group(t, c, name), group(t, c, name)
	const keys = 2970
	for i := 0; i < keys; i += 99 {
		var ops []state.Op
		for j := range 99 {
			ops = append(ops, state.Op{Key: fmt.Sprintf("record/%05d", i+j), Value: fmt.Appendf(nil, "%d", i+j)})
		}
		if r, err := s.Txn(t.Context(), state.Txn{Then: ops}); err != nil || !r.Done {
			t.Fatalf("%+v, %v", r, err)
		}
	}
	ctx, cancel := context.WithCancel(t.Context())
	var wg sync.WaitGroup
	wg.Go(func() {
		for i := 0; ctx.Err() == nil; i++ {
			value := fmt.Appendf(nil, "%d", i)
			_, _ = other.Txn(ctx, state.Txn{Then: []state.Op{{Key: "beat/a", Value: value}, {Key: "record/", Value: value}, {Key: "record/x", Value: value}}})
		}
	})
	for range 10 {
		got, err := s.Get(t.Context(), "record/0")
		if err != nil || len(got.Entries) != keys || string(got.Entries[keys-1].Value) != fmt.Sprint(keys-1) {
			t.Errorf("%d entries, %v", len(got.Entries), err)
		}
		got, err = s.Get(t.Context(), "record/")
		if n := len(got.Entries); err != nil || n > keys && string(got.Entries[0].Value) != string(got.Entries[n-1].Value) {
			t.Errorf("%d entries, not of one revision: %v", n, err)
		}
	}
	cancel()
	wg.Wait()
}

// addUp increments a number, times times.
func addUp(t *testing.T, s *rados.Store, times int) {
	for added := 0; added < times; {
		got, err := s.Get(t.Context(), "sum")
		if err != nil {
			t.Error(err)
			return
		}
		var sum uint64
		var at state.Revision
		for _, e := range got.Entries {
			sum, at = binary.BigEndian.Uint64(e.Value), e.Revision
		}
		r, err := s.Txn(t.Context(), state.Txn{If: []state.Compare{{Key: "sum", Revision: at}}, Then: []state.Op{{Key: "sum", Value: binary.BigEndian.AppendUint64(nil, sum+1)}}})
		if err != nil {
			t.Error(err)
			return
		}
		if r.Done {
			added++
		}
	}
}

// TestStateWatch: changes are noticed, also after the OSDs were killed.
func TestStateWatch(t *testing.T) {
	c := own(t)
	name := newGroup()
	s, other := group(t, c, name), group(t, c, name)
	put := func(s *rados.Store) (state.Result, error) {
		return s.Txn(t.Context(), state.Txn{Then: []state.Op{{Key: "a/1"}}})
	}
	changes := make(chan struct{}, 1000)
	go func() { _ = s.Watch(t.Context(), "a/", func() { changes <- struct{}{} }) }()
	noticed := func(when string) {
		t.Helper()
		for len(changes) > 0 {
			<-changes
		}
		for tries := 1; ; tries++ {
			_, err := put(other)
			if err == nil {
				break
			}
			if !errors.Is(err, state.ErrUnknown) || tries == 10 {
				t.Fatalf("%s: %v", when, err)
			}
		}
		began := time.Now()
		select {
		case <-changes:
			t.Logf("%s: noticed %v after the change", when, time.Since(began).Round(100*time.Microsecond))
		case <-time.After(30 * time.Second):
			t.Errorf("%s: a change is not noticed", when)
		}
	}
	<-changes
	time.Sleep(time.Second) // for the first watch to begin
	noticed("a watch")
	for _, osd := range []string{"osd.0", "osd.1"} {
		if err := errors.Join(c.Signal(osd, syscall.SIGKILL), c.StartDaemon(osd)); err != nil {
			t.Fatal(err)
		}
		wait(t, c)
	}
	noticed("OSDs that were killed")
}

// wait waits until the cluster serves all data again.
func wait(t *testing.T, c *Cluster) {
	t.Helper()
	for end := time.Now().Add(time.Minute); ; time.Sleep(200 * time.Millisecond) {
		out, err := c.Run("ceph", "pg", "stat")
		if states, _, _ := strings.Cut(out, ";"); err == nil && strings.HasSuffix(states, " active+clean") && !strings.Contains(states, ",") {
			return
		}
		if time.Now().After(end) {
			t.Fatalf("after a minute: %s, %v", out, err)
		}
	}
}

// TestStateSuite runs the suite of package statetest. Each store has a group of its own; stopping the OSDs cuts it off.
func TestStateSuite(t *testing.T) {
	c := own(t)
	statetest.Suite{New: func(t *testing.T) statetest.System {
		name := newGroup()
		return statetest.System{
			Open: func() state.Store { return group(t, c, name) },
			Cut: func(on bool) {
				sig := syscall.SIGCONT
				if on {
					sig = syscall.SIGSTOP
				}
				if err := errors.Join(c.Signal("osd.0", sig), c.Signal("osd.1", sig)); err != nil {
					t.Fatal(err)
				}
			},
			Within: 3 * time.Second, // on a busy machine
		}
	}}.Run(t)
}
