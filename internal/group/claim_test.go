package group

import (
	"strings"
	"testing"

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
}
