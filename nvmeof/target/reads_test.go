package target

import (
	"flag"
	"testing"

	"github.com/nvmeof-go/nvmeof/capsule"
)

var reads = flag.Int("reads", 100, "how many READs TestReads carries out")

// TestReads reads 4 KiB from a namespace in memory, again and again, one command at a time.
// test/crossings counts the calls of a READ by it.
func TestReads(t *testing.T) {
	r := newRemote(t, overLoopback)
	_, io := r.controller(1)
	l := newLoad(io[0], capsule.IORead, 1, 4096)
	for range *reads {
		l.run(1)
	}
	r.close()
}
