package target

import (
	"testing"

	"github.com/nvmeof-go/nvmeof/backend/memory"
)

// TestPinnedPages: a device that pins pages does not get the memory of a store that
// gives freed pages back, which would be other memory soon.
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
