package operation

import "testing"

// TestQuota: however many namespaces there are, one that others leave alone has half of the
// queue's entries at least, and one that hangs leaves others an entry.
func TestQuota(t *testing.T) {
	for _, entries := range []int{1, 2, 3, 31, 127, 1023} {
		for _, count := range []int32{1, 2, 3, 10, 63, 64, 100, 127, 128, 3000} {
			var ns Namespaces
			ns.count.Store(count)
			q := &IOQueue{all: make([]chunk, entries), quota: quota{namespaces: &ns.count}}
			q.divide()
			one := &Lane{queue: q}
			for one.inFlight < entries && q.quota.may(one, 1) {
				q.quota.add(one, 1)
			}
			if one.inFlight < (entries+1)/2 || count == 1 && one.inFlight < entries {
				t.Errorf("%d namespaces: one has %d of %d entries", count, one.inFlight, entries)
			}
			if count > 1 && entries > 1 && one.inFlight == entries {
				t.Errorf("%d namespaces: one has all of %d entries", count, entries)
			}
			if other := (&Lane{queue: q}); !q.quota.may(other, 1) {
				t.Errorf("%d namespaces: the second one has none of %d entries", count, entries)
			}
			q.quota.add(one, -one.inFlight)
			if q.quota.taken != 0 {
				t.Errorf("%d namespaces: %d entries are lost", count, q.quota.taken)
			}
		}
	}
}
