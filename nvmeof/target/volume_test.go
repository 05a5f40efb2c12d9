package target

import (
	"strings"
	"testing"

	"github.com/nvmeof-go/nvmeof/backend/memory"
)

// TestPinnedPages: a device that pins pages does not use the memory of a store that frees pages: freed pages could
// be reused for other memory.
func TestPinnedPages(t *testing.T) {
	const own = 5 // two arenas of each shard, and the zeroes
	for _, pins := range []bool{false, true} {
		f := newFixture(t, func(c *Config) { c.Device.(*fakeDevice).pins = pins })
		if got := f.device.registered() > own; got == pins {
			t.Errorf("device pins pages: %v; store that frees some is registered: %v", pins, got)
		}
		before := f.device.registered()
		s, err := memory.New(memory.Config{Size: 1 << 20, Pinned: true})
		if err != nil {
			t.Fatal(err)
		}
		f.export(s)
		if f.device.registered() != before+1 {
			t.Errorf("device pins pages: %v; store that keeps all is not registered", pins)
		}
	}
}

// TestNamespaceWithoutName: a store that is exported without a name is called by its type in logs.
func TestNamespaceWithoutName(t *testing.T) {
	f := newFixture(t)
	s := newFakeStore(1 << 20)
	const name = "*target.fakeStore"
	n, err := f.sub.AddNamespace(NamespaceConfig{Store: s})
	if err != nil {
		t.Fatal(err)
	}
	if err := n.ClearFault(); err == nil || !strings.HasSuffix(err.Error(), name+" has not failed") {
		t.Errorf("a fault that is none: %v", err)
	}
	if _, err := f.sub.AddNamespace(NamespaceConfig{Store: &fakeStore{}}); err == nil || !strings.Contains(err.Error(), "("+name+"): block size 0") {
		t.Errorf("a store without blocks: %v", err)
	}
	if got := f.target.Measure().Subsystems[0].Namespaces[1].Export; got != name {
		t.Errorf("it is measured as %q", got)
	}
}
