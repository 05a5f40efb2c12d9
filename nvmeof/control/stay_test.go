package control

import (
	"strings"
	"testing"
)

// TestHostStays: a host that may use the subsystem before and after a change stays connected; one that no longer
// may is disconnected.
func TestHostStays(t *testing.T) {
	r := newRig(t)
	h := newReturner(r)
	r.apply(r.doc(first))
	c := h.until(waitForHost)
	const list = "    hosts:\n      - nqn: h1\n"
	for _, edit := range [][]string{
		{list, "    allow-any-host: true\n    hosts:\n"},
		nil,
		{"- nqn: a\n", "- nqn: a\n    serial: s\n    model: m\n    refuse-duplicates: true\n    min-controller-id: 9\n    max-controller-id: 99\n"},
		nil,
	} {
		r.apply(r.doc(strings.NewReplacer(edit...).Replace(first)))
		if _, err := c.Namespaces(t.Context()); err != nil {
			t.Fatalf("after %q the host is gone: %v", edit, err)
		}
	}
	r.apply(r.doc(strings.Replace(first, "- nqn: h1\n", "- nqn: h3\n", 1)))
	<-c.Done()
	_ = c.Disconnect(t.Context())
}
