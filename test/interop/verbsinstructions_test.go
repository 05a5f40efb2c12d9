package interop

import (
	"fmt"
	"strings"
	"testing"
	"text/tabwriter"

	"github.com/nvmeof-go/nvmeof/test/guest"
)

// TestVerbsInstructions compares what TestVerbsBench does, in instructions of the target's
// machine, which hardly depend on what else this one does, nor on which code the emulator
// is slow with. Therefore it needs no machine for itself, and one round.
func TestVerbsInstructions(t *testing.T) {
	needGuest(t)
	l := newPairWith(t, peerVerbs, guest.Config{CPUs: 1, CountInstructions: true}, guest.Config{CPUs: 1})
	results := l.compare(t, 1)
	var table strings.Builder
	w := tabwriter.NewWriter(&table, 0, 0, 2, ' ', tabwriter.AlignRight)
	fmt.Fprintln(w, "instructions per I/O\tnvmeof\tin user mode\tnvmet\tratio\t")
	for _, storage := range storages {
		for _, load := range workloads {
			mine := results[benchCell{storage, load.name, "nvmeof"}][0]
			ours, nvmets := mine.code, results[benchCell{storage, load.name, "nvmet"}][0].code
			fmt.Fprintf(w, "%s,%s\t%.0f\t%.0f\t%.0f\t%.2f x\t\n", storage, load.name, ours, mine.user, nvmets, ours/nvmets)
			if ours > benchLimit*nvmets {
				t.Errorf("%s,%s: %.0f instructions per I/O, %.2f times nvmet's %.0f, at most %.1f times are allowed",
					storage, load.name, ours, ours/nvmets, nvmets, benchLimit)
			}
		}
	}
	w.Flush()
	t.Logf("\n%s", table.String())
}
