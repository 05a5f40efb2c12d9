package target

import (
	"testing"

	"github.com/nvmeof-go/nvmeof/backend/memory"
)

// TestPinnedPages: a device that pins pages does not get the memory of a store that
// gives freed pages back, which would be other memory soon.
func TestPinnedPages(t *testing.T) {
	for _, pins := range []bool{false, true} {
		f := newFixture(t, func(c *Config) { c.Device.(*fakeDevice).pins = pins })
		if got := f.target.volumes.byStore[f.store].regions[f.target.first] != nil; got == pins {
			t.Errorf("device pins pages: %v; store that frees some is registered: %v", pins, got)
		}
		s, err := memory.New(memory.Config{Size: 1 << 20, Pinned: true})
		if err != nil {
			t.Fatal(err)
		}
		f.export(s)
		if f.target.volumes.byStore[s].regions[f.target.first] == nil {
			t.Errorf("device pins pages: %v; store that keeps all is not registered", pins)
		}
	}
}
