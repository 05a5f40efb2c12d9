package main

import (
	"sync"
	"testing"

	"github.com/nvmeof-go/nvmeof/nvmeof"
)

// TestIdentityIsOne: programs that start at the same time agree on who this host is.
func TestIdentityIsOne(t *testing.T) {
	for range 20 {
		dir := t.TempDir()
		got := make([]nvmeof.HostIdentity, 8)
		var wg sync.WaitGroup
		for i := range got {
			wg.Go(func() { got[i], _ = keptIdentity(dir) })
		}
		wg.Wait()
		for _, h := range got {
			if h != got[0] {
				t.Fatalf("%v and %v", got[0], h)
			}
		}
		if h, ok := readIdentity(dir); !ok || h != got[0] {
			t.Fatalf("kept %v, used %v", h, got[0])
		}
	}
}
