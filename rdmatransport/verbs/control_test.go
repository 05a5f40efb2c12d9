//go:build verbs && cgo && linux

package verbs

import "testing"

// TestNumberUsedAgain: what the device reports of a queue pair is not taken for that of a closed one which had its
// number, and whose connection has not been ended by the peer yet.
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
