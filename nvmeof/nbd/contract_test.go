package nbd

import (
	"strings"
	"testing"

	"github.com/nvmeof-go/nvmeof/backend"
)

// A saysQueue returns the same result at each Poll.
type saysQueue struct {
	backend.Queue
	tag uint64
}

func (q *saysQueue) Poll(rs []backend.Result) int {
	rs[0] = backend.Result{Tag: q.tag}
	return 1
}

// TestStoreIsBlamed: if a store breaks its contract, so that another client's request would get a result, the program
// panics with a message that names the store.
func TestStoreIsBlamed(t *testing.T) {
	for name, tag := range map[string]uint64{"beyond all": 7<<16 | 4, "not in flight": 7<<16 | 2, "a second time": 6<<16 | 1, "made up": 1, "of none": 0} {
		c := &conn{export: &export{disk: Disk{Name: "disk 1"}}, slots: make([]request, 4), queue: &saysQueue{tag: tag}}
		c.slots[1].tag = 7<<16 | 1
		func() {
			defer func() {
				if got, _ := recover().(string); !strings.Contains(got, "disk 1: the store (") || !strings.Contains(got, "no request in flight has") {
					t.Errorf("%s: panic %q", name, got)
				}
			}()
			c.poll(make([]backend.Result, 1))
		}()
	}
}
