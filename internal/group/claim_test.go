package group

import (
	"strings"
	"testing"
	"time"

	"github.com/nvmeof-go/nvmeof/internal/group/state"
)

func TestClaimSlot(t *testing.T) {
	holder := func(n int, name string) state.Entry {
		return state.Entry{Key: slotKey(n), Value: encode(SlotHolder{version, name}, nil), Revision: 1}
	}
	slot, txn, err := ClaimSlot([]state.Entry{holder(1, "a"), {Key: slotKey(2), Value: []byte("?")}}, "b", 0)
	if slot != 3 || txn == nil || txn.If[0] != (state.Compare{Key: slotKey(3)}) || err != nil {
		t.Errorf("%d, %+v, %v", slot, txn, err)
	}
	if slot, txn, err := ClaimSlot([]state.Entry{holder(1, "a"), holder(4, "b")}, "b", 0); slot != 4 || txn != nil || err != nil {
		t.Errorf("%d, %+v, %v", slot, txn, err)
	}
	if _, _, err := ClaimSlot([]state.Entry{holder(1, "a"), holder(2, "c")}, "b", 2); err == nil || !strings.Contains(err.Error(), "gateway remove") {
		t.Error(err)
	}
	registered := state.Entry{Key: memberKey("a"), Value: encode(Member{Version: version, Name: "a", Slot: 1}, nil), Revision: 1}
	for name, want := range map[string]int{"a": 1, "b": 2} { // somebody has removed the key of a's, which goes on
		if slot, txn, err := ClaimSlot([]state.Entry{registered}, name, 0); slot != want || txn == nil || err != nil {
			t.Errorf("%s: %d, %+v, %v", name, slot, txn, err)
		}
	}
}

// TestSlotGone: the range of a gateway whose key somebody has removed is not given to another one.
func TestSlotGone(t *testing.T) {
	c := newCluster(t, fenced(2)...)
	a := c.start("a")
	c.wantSpread(20*time.Second, 2)
	c.removed(slotKey(1))
	b := c.start("b")
	c.wantSpread(20*time.Second, 1, 1)
	if x, y := a.own().value.Slot, b.own().value.Slot; x != 1 || y != 2 {
		t.Errorf("their ranges are %d and %d", x, y)
	}
}
