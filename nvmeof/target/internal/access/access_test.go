package access

import (
	"testing"

	"github.com/nvmeof-go/nvmeof/capsule"
	"github.com/nvmeof-go/nvmeof/nvmeof"
)

func TestRights(t *testing.T) {
	some := NewRights(Read, map[capsule.NSID]Level{2: Write, 5: None})
	for _, c := range []struct {
		r    *Rights
		id   capsule.NSID
		want Level
	}{
		{nil, 1, Write}, {nil, capsule.NSIDBroadcast, Write},
		{some, 0, Read}, {some, 1, Read}, {some, 2, Write}, {some, 5, None}, {some, 6, Read}, {some, capsule.NSIDBroadcast, Read},
		{NewRights(None, nil), 1, None},
	} {
		if got := c.r.To(c.id); got != c.want || c.r.See(c.id) != (c.want != None) {
			t.Errorf("right to namespace %d: %v, want %v", c.id, got, c.want)
		}
	}
}

func TestList(t *testing.T) {
	var l List[int]
	want := func(what string, nqn nvmeof.NQN, allowed bool, config int) {
		t.Helper()
		h := l.Find(nqn)
		if (h != nil) != allowed || allowed && (h.NQN != nqn || h.Config != config) {
			t.Errorf("%s: %s has %+v, want allowed %v with %d", what, nqn, h, allowed, config)
		}
	}
	want("an empty list", "a", false, 0)
	l.Set(&Host[int]{NQN: "b", Config: 7})
	l.Set(&Host[int]{NQN: "a", Config: 1})
	l.Set(&Host[int]{NQN: "a", Config: 2})
	want("set", "a", true, 2)
	want("set", "c", false, 0)
	if all := l.All(); len(all) != 2 || all[0].NQN != "a" || all[1].NQN != "b" {
		t.Errorf("the list is %v", all)
	}
	l.AllowAny(true)
	want("any", "c", true, 0)
	if !l.Any() || l.Named("c") != nil {
		t.Error("who is allowed like all has an entry")
	}
	l.AllowAny(false)
	if !l.Remove("a") || l.Remove("a") {
		t.Error("Remove does not report whether the host was there")
	}
	want("removed", "a", false, 0)
}
