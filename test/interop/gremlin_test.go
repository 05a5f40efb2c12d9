package interop

import (
	"testing"
	"time"
)

// TestGremlin has the raw peer attack the kernel's target, with the kernel's host as who
// behaves beside it: what docs/testing.md compares ours with. Nothing is expected of it but
// that the peer comes to its end.
func TestGremlin(t *testing.T) {
	if !*whole {
		t.Skip("half an hour, about another's target: go test ./test/interop -guest -whole -v -run TestGremlin -timeout 80m")
	}
	needGuest(t)
	l := newLabWith(t, peerSoftroce)
	l.install(t, "./test/gremlin", "gremlin")
	l.link(t, 4200)
	e := env{"nqn": targetNQN, "addr": "10.9.0.2", "family": "ipv4", "storage": "memory"}
	l.onHost(t, time.Minute, "nvmet", e.with(env{"action": "start"}))
	t.Log(l.onHost(t, 40*time.Minute, "gremlin", e))
}
