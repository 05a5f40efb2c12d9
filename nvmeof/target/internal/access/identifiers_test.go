package access

import (
	"testing"

	"github.com/nvmeof-go/nvmeof/capsule"
	"github.com/nvmeof-go/nvmeof/nvmeof"
)

func TestIdentifiers(t *testing.T) {
	var o Identifiers
	var keys map[nvmeof.NQN]bool
	keyed := func(nqn nvmeof.NQN) bool { return keys[nqn] }
	one, two := capsule.HostID{1}, capsule.HostID{2}
	take := func(id capsule.HostID, nqn nvmeof.NQN, proven bool, holder, displaced nvmeof.NQN) {
		t.Helper()
		h, d, ok := o.Take(Claim{ID: id, NQN: nqn, Proven: proven}, keyed)
		if h != holder || d != displaced || ok != (holder == nqn) {
			t.Errorf("%s gets %q, %q, %v; want %q, %q", nqn, h, d, ok, holder, displaced)
		}
	}
	take(one, "a", false, "a", "")
	take(one, "a", false, "a", "")
	take(one, "b", false, "a", "")
	o.Release(one, "a")
	take(one, "b", false, "a", "") // one use is left
	o.Release(one, "a")
	take(one, "b", false, "b", "")

	keys = map[nvmeof.NQN]bool{"k": true, "l": true}
	take(one, "k", true, "k", "b")
	o.Release(one, "b") // it has no use left
	take(one, "l", true, "k", "")
	o.Release(one, "k")
	take(one, "l", true, "k", "") // away, and its owner
	if h, taken := o.Other(Claim{ID: one, NQN: "l", Proven: true}, keyed); !taken || h != "k" {
		t.Errorf("it is %q's", h)
	}
	take(two, "k", true, "k", "") // and now of another one instead
	take(one, "l", true, "l", "")
	o.Release(two, "k")
	delete(keys, "k")
	take(two, "a", false, "a", "")
	if len(o.ids) != 2 {
		t.Errorf("%d identifiers are kept", len(o.ids))
	}
}

// TestGuests: a host that is registered may use its identifier while another host, which has a key and used it
// last, is disconnected. It yields when that one returns, and keeps it when that one loses its key.
func TestGuests(t *testing.T) {
	var o Identifiers
	keys := map[nvmeof.NQN]bool{"k": true}
	keyed := func(nqn nvmeof.NQN) bool { return keys[nqn] }
	one, two := capsule.HostID{1}, capsule.HostID{2}
	take := func(id capsule.HostID, nqn nvmeof.NQN, registered bool, holder, displaced nvmeof.NQN) {
		t.Helper()
		h, d, ok := o.Take(Claim{ID: id, NQN: nqn, Proven: keys[nqn], Registered: registered}, keyed)
		if h != holder || d != displaced || ok != (holder == nqn) {
			t.Errorf("%s gets %q, %q, %v; want %q, %q", nqn, h, d, ok, holder, displaced)
		}
	}
	take(one, "k", false, "k", "")
	take(one, "a", true, "k", "") // it is there
	o.Release(one, "k")
	take(one, "a", false, "k", "") // where it is not registered
	take(one, "a", true, "a", "")
	take(one, "a", true, "a", "")
	take(one, "b", true, "k", "") // nor is there a second guest
	o.Release(one, "a")
	take(one, "b", true, "k", "")
	if !o.InUse(one) {
		t.Error("a guest does not use it")
	}
	take(one, "k", false, "k", "a")
	o.Release(one, "a") // it has no use left
	o.Release(one, "k")
	take(one, "a", true, "a", "")
	take(two, "k", false, "k", "") // and now another one instead
	take(one, "b", true, "a", "")
	o.Release(one, "a")
	take(one, "b", false, "b", "")
	o.Release(one, "b")
	o.Release(two, "k")
	take(two, "a", true, "a", "")
	delete(keys, "k")
	take(two, "b", true, "a", "")
	take(two, "a", false, "a", "")
	o.Release(two, "a")
	o.Release(two, "a")
	take(two, "b", false, "b", "")
	o.Release(two, "b")
	if len(o.ids) != 0 {
		t.Errorf("%d identifiers are kept: %v", len(o.ids), o.ids)
	}
}
