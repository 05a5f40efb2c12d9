package host

import (
	"errors"
	"sync/atomic"
	"testing"

	"github.com/google/uuid"

	"github.com/nvmeof-go/nvmeof/backend"
	"github.com/nvmeof-go/nvmeof/nvmeof/target"
)

// A resizable store has as much of another as it is told.
type resizable struct {
	backend.Store
	size atomic.Int64
}

func (r *resizable) Info() backend.Info {
	info := r.Store.Info()
	info.Size = r.size.Load()
	return info
}

// TestRefresh: a namespace takes its new size, fails when it is removed, and is not
// another that has its identifier.
func TestRefresh(t *testing.T) {
	other := newStore(t, 1<<20, 512) // closed after the target
	store := &resizable{Store: newStore(t, 1<<20, 512)}
	store.size.Store(1 << 19)
	r := newRig(t, rigConfig{stores: []backend.Store{store}})
	n := r.namespace(r.connect(r.options()))
	block := make([]byte, 512)
	if _, err := n.WriteAt(block, 1<<19); !errors.Is(err, ErrOutOfRange) {
		t.Errorf("beyond the end: %v", err)
	}
	store.size.Store(1 << 20)
	r.target.Revalidate()
	if changed, err := n.Refresh(); !changed || err != nil || n.Size() != 1<<20 {
		t.Errorf("%v, %v, %d bytes", changed, err, n.Size())
	}
	if _, err := n.WriteAt(block, 1<<19); err != nil {
		t.Error(err)
	}
	before := n.Identify()
	if err := r.sub.Namespaces()[0].SetGroup(7); err != nil {
		t.Fatal(err)
	}
	if _, err := n.Refresh(); err != nil || n.Identify().ANAGRPID != 7 || before.ANAGRPID != 1 {
		t.Errorf("moved to another ANA group: %v; %d, before %d", err, n.Identify().ANAGRPID, before.ANAGRPID)
	}
	if err := r.sub.RemoveNamespace(1); err != nil {
		t.Fatal(err)
	}
	if _, err := n.WriteAt(block, 0); !errors.Is(err, ErrRemoved) {
		t.Errorf("removed, which the host does not know: %v", err)
	}
	if _, err := r.sub.AddNamespace(target.NamespaceConfig{Store: other, UUID: uuid.MustParse("6f1f2a3c-0d3e-4c7b-9d57-1a0f6f0e5b02")}); err != nil {
		t.Fatal(err)
	}
	if _, err := n.Refresh(); !errors.Is(err, ErrRemoved) {
		t.Errorf("Refresh finds another: %v", err)
	}
	_, read := n.ReadAt(block, 0)
	_, wrote := n.WriteAt(block, 0)
	_, opened := n.OpenQueue(1, nil)
	for _, err := range []error{read, wrote, opened} {
		if !errors.Is(err, ErrRemoved) {
			t.Errorf("the other is used: %v", err)
		}
	}
}
