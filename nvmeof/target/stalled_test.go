package target

import (
	"testing"
	"time"

	"github.com/nvmeof-go/nvmeof/capsule"
)

// TestStalledHost: a host that does not deliver the data of a write, and keeps its connection, does not prevent
// the pause or removal of the namespace, during which the commands of all others are held.
func TestStalledHost(t *testing.T) {
	t.Parallel()
	for name, act := range map[string]func(f *fixture) error{
		"pause":   func(f *fixture) error { return f.sub.Namespaces()[0].Pause(0) },
		"remove":  func(f *fixture) error { return f.sub.RemoveNamespace(1) },
		"suspend": func(f *fixture) error { return f.sub.SuspendNamespace(1) },
	} {
		t.Run(name, func(t *testing.T) {
			f := newFixture(t)
			f.target.fetchTimeout = 50 * time.Millisecond
			a, b := f.tenant("a", f.sub, 0), f.tenant("b", f.sub, 1)
			f.export(newFakeStore(1 << 20))
			stall := func(h *tenant, id capsule.NSID) {
				c := ioCommand(capsule.IOWrite, id, capsule.ReadWrite{Blocks: 8}, make([]byte, 4096))
				c.holdFetch = true
				h.io.start(c).wantPending()
			}
			stall(a, 1)
			stall(b, 2) // no other command waits for it
			done := make(chan error, 1)
			go func() { done <- act(f) }() // ends at the latest with a's queue
			select {
			case err := <-done:
				if err != nil {
					t.Error(err)
				}
			case <-time.After(8 * time.Second):
				t.Error("it waits for the host")
				a.io.lose()
				<-done
			}
			<-a.io.closed
			if f.logs.FilterMessageSnippet("does not deliver the data").Len() != 1 {
				t.Error("no line names the host")
			}
			b.io.wantOK(readOf(2))
		})
	}
}
