//go:build verbs && cgo && linux

package verbs

import "testing"

// TestNumberUsedAgain: an event of the device for a queue pair number is not assigned to a closed queue pair that had
// the number and whose connection the peer has not ended yet.
func TestNumberUsedAgain(t *testing.T) {
	d := &device{conns: map[token]*connection{}}
	for i := range token(16) {
		d.conns[i] = &connection{dev: d, token: i, qp: &queuePair{qpn: 77}, released: i != 11}
	}
	for range 100 { // maps have no order
		if c := d.connectionOf(77); c == nil || c.token != 11 {
			t.Fatalf("queue pair 77 is taken for that of connection %+v, want 11", c)
		}
	}
	if c := d.connectionOf(78); c != nil {
		t.Errorf("a number that nobody has is taken for that of connection %d", c.token)
	}
}
