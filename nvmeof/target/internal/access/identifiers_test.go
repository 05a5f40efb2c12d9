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
		h, d, ok := o.Take(Claim{id, nqn, proven}, keyed)
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
	o.Release(one, "b") // has none any more
	take(one, "l", true, "k", "")
	o.Release(one, "k")
	take(one, "l", true, "k", "") // away, and its owner
	if h, taken := o.Other(Claim{one, "l", true}, keyed); !taken || h != "k" {
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
