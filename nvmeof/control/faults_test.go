package control

import (
	"context"
	"errors"
	"maps"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/nvmeof-go/nvmeof/backend"
	"github.com/nvmeof-go/nvmeof/backend/file"
	"github.com/nvmeof-go/nvmeof/backend/memory"
	"github.com/nvmeof-go/nvmeof/nvmeof/config"
)

// fakeFaults are those of a group.
type fakeFaults struct {
	mu  sync.Mutex
	all map[config.Path]Fault
	err error
}

func (f *fakeFaults) All(context.Context) (func(config.Path) (Fault, error), error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	all := maps.Clone(f.all)
	return func(p config.Path) (Fault, error) { return all[p], nil }, f.err
}

func (f *fakeFaults) Add(_ context.Context, p config.Path, why string) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.err == nil {
		f.all[p] = Fault{Path: p, Gateway: "gw1", Why: why}
	}
	return f.err
}

func (f *fakeFaults) Clear(_ context.Context, p config.Path) (bool, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	_, had := f.all[p]
	if f.err == nil {
		delete(f.all, p)
	}
	return had, f.err
}

// A failing store can be made to fail, and says whether it has.
type failing interface {
	backend.Failer
	backend.Latcher
}

// faultGroup are two gateways with faults in common, and at each the store of namespace 2, once it was opened.
func faultGroup(t *testing.T) (a, b *gatewayRig, at *[2]failing, faults *fakeFaults) {
	dir := sharedFiles(t)
	faults, at = &fakeFaults{all: map[config.Path]Fault{}}, new([2]failing)
	opened := func(i int) func(*Config) {
		return func(c *Config) {
			c.Faults = faults
			c.Open = func(n *config.Namespace, pool *memory.Pool) (backend.Store, []string, error) {
				s, notes, err := OpenStore(n, pool)
				if n.NSID == 2 && err == nil {
					at[i] = s.(failing)
				}
				return s, notes, err
			}
		}
	}
	a, b = newGatewayRig(t, dir, opened(0)), newGatewayRig(t, dir, opened(1))
	a.set(shared)
	b.set(shared)
	return a, b, at, faults
}

// TestFaultGoesAlong: a store that has failed takes no writes at the next gateway either, until somebody clears that,
// wherever.
func TestFaultGoesAlong(t *testing.T) {
	a, b, at, faults := faultGroup(t)
	ctx := t.Context()
	a.must(ServeGroup(ctx, a.Manager, 2, 1))
	if err := a.ClearFault("a", 2); err == nil || !strings.Contains(err.Error(), "has not failed") {
		t.Errorf("a sound store is cleared: %v", err)
	}
	at[0].Fail(syscall.EIO)
	a.must(DrainGroup(ctx, a.Manager, 2))
	b.must(ServeGroup(ctx, b.Manager, 2, 2))
	if err := at[1].Failed(); err == nil || !strings.Contains(err.Error(), "at gateway gw1") {
		t.Fatalf("the next gateway's store has failed with %v", err)
	}
	a.must(FollowFaults(ctx, a.Manager)) // which it has nothing to do with any more
	a.must(a.ClearFault("a", 2))
	if at[1].Failed() == nil {
		t.Error("it is cleared before its gateway knows")
	}
	b.must(FollowFaults(ctx, b.Manager))
	if err := at[1].Failed(); err != nil || len(faults.all) > 0 {
		t.Errorf("cleared elsewhere it has failed with %v, and noted are %v", err, faults.all)
	}
	if err := a.ClearFault("a", 2); err == nil || a.ClearFault("a", 9) == nil {
		t.Errorf("what has not failed is cleared: %v", err)
	}
	at[1].Fail(syscall.EIO)
	b.must(FollowFaults(ctx, b.Manager))
	if len(faults.all) != 1 {
		t.Errorf("noted are %v", faults.all)
	}
	b.must(b.ClearFault("a", 2))
	b.must(FollowFaults(ctx, b.Manager))
	if err := at[1].Failed(); err != nil || len(faults.all) > 0 {
		t.Errorf("cleared here it has failed with %v, and noted are %v", err, faults.all)
	}
}

// TestFaultNotedLater: what cannot be noted as a group is given back holds here, and is noted later.
func TestFaultNotedLater(t *testing.T) {
	_, b, at, faults := faultGroup(t)
	ctx := t.Context()
	b.must(ServeGroup(ctx, b.Manager, 2, 1))
	at[1].Fail(syscall.EIO)
	faults.err = errors.New("nobody answers")
	if err := DrainGroup(ctx, b.Manager, 2); !errors.Is(err, faults.err) {
		t.Errorf("it is given back without a note: %v", err)
	}
	faults.err = nil
	b.must(ServeGroup(ctx, b.Manager, 2, 3))
	if at[1].Failed() == nil {
		t.Error("opened again it has not failed")
	}
	b.must(FollowFaults(ctx, b.Manager))
	if len(faults.all) != 1 {
		t.Errorf("noted are %v", faults.all)
	}
}

// A hungClear is a file whose failure is not cleared before cleared is closed.
type hungClear struct {
	*file.Store
	cleared chan struct{}
}

func (h *hungClear) Clear() error {
	<-h.cleared
	return h.Store.Clear()
}

// TestFaultThatHangs: where a store hangs as its failure is cleared, what has failed besides is noted.
func TestFaultThatHangs(t *testing.T) {
	cleared := make(chan struct{})
	stores, faults := new([4]backend.Store), &fakeFaults{all: map[config.Path]Fault{}}
	r := newGatewayRig(t, sharedFiles(t), func(c *Config) {
		c.Faults = faults
		c.Open = func(n *config.Namespace, pool *memory.Pool) (s backend.Store, notes []string, err error) {
			if s, notes, err = OpenStore(n, pool); err == nil && n.NSID == 2 {
				s = &hungClear{s.(*file.Store), cleared}
			}
			stores[n.NSID] = s
			return s, notes, err
		}
	})
	r.set(shared)
	ctx := t.Context()
	r.must(ServeGroup(ctx, r.Manager, 1, 1))
	r.must(ServeGroup(ctx, r.Manager, 2, 1))
	stores[2].(failing).Fail(syscall.EIO)
	r.must(FollowFaults(ctx, r.Manager))
	clear(faults.all) // at another gateway
	stores[1].(failing).Fail(syscall.EIO)
	r.stores.begin(50 * time.Millisecond)
	if err := FollowFaults(ctx, r.Manager); !errors.As(err, new(*HungError)) {
		t.Errorf("a store that hangs is cleared: %v", err)
	}
	if len(faults.all) != 1 {
		t.Errorf("noted are %v", faults.all)
	}
	close(cleared)
	r.stores.calls.Wait()
	r.must(FollowFaults(ctx, r.Manager))
	if stores[2].(failing).Failed() != nil || stores[1].(failing).Failed() == nil || len(faults.all) != 1 {
		t.Errorf("failed are %v and %v, and noted %v", stores[1].(failing).Failed(), stores[2].(failing).Failed(), faults.all)
	}
}
