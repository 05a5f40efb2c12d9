//go:build verbs && cgo && linux

package verbs

import "testing"

// TestOutstanding: requests of a queue pair that has ended are no longer counted, whichever way it ended.
func TestOutstanding(t *testing.T) {
	var out outstanding
	r := newRing(8, &out)
	want := func(urgent, relaxed int) {
		t.Helper()
		if out != (outstanding{urgent, relaxed}) {
			t.Errorf("outstanding %+v, want %d urgent, %d relaxed", out, urgent, relaxed)
		}
	}
	r.push(entry{id: 1, relaxed: true})
	s := r.push(entry{id: 2, relaxed: true})
	r.push(entry{id: 3})
	want(1, 2)
	r.complete(s)
	want(1, 0)
	r.abandon()
	r.wait(entry{id: 4, relaxed: true})
	want(1, 1)
	r.forget()
	want(0, 0)
}
