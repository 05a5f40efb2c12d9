package cm

import "testing"

// TestQueueShrinks: the memory of a flood is released, and no item is lost or reordered.
func TestQueueShrinks(t *testing.T) {
	var q queue[int]
	for range 3 {
		const n = 10 * maxIdleQueue
		for i := range n {
			q.put(i)
		}
		for i := range n {
			if v, ok := q.take(); !ok || v != i {
				t.Fatalf("item %d is %d, %v", i, v, ok)
			}
		}
		if _, ok := q.take(); ok || cap(q.items) > maxIdleQueue {
			t.Fatalf("%v; room for %d items is kept", ok, cap(q.items))
		}
	}
}
