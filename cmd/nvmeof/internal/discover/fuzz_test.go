package discover

import (
	"bytes"
	"testing"

	"github.com/nvmeof-go/nvmeof/capsule"
	"github.com/nvmeof-go/nvmeof/nvmeof/host"
)

// FuzzDiscovery checks that a log page from another process has as many records as it says, and is encoded as it was.
func FuzzDiscovery(f *testing.F) {
	var page bytes.Buffer
	if err := writeDiscovery(&host.DiscoveryLog{Generation: 7, Entries: make([]capsule.DiscoveryEntry, 2)}, &page); err != nil {
		f.Fatal(err)
	}
	f.Add(page.Bytes())
	f.Add(page.Bytes()[:1500])
	f.Add(page.Bytes()[:100])
	f.Fuzz(func(t *testing.T, page []byte) {
		log, err := parseDiscovery(page)
		if err != nil {
			return
		}
		var b bytes.Buffer
		if err := writeDiscovery(&host.DiscoveryLog{Generation: log.Generation, Entries: log.Entries}, &b); err != nil {
			t.Fatal(err)
		}
		again, err := parseDiscovery(b.Bytes())
		if err != nil || again.Generation != log.Generation || len(again.Entries) != len(log.Entries) || len(page) < len(log.Entries)*capsule.DiscoveryEntrySize {
			t.Fatalf("%d bytes are %d records, then %d (%v)", len(page), len(log.Entries), len(again.Entries), err)
		}
	})
}
