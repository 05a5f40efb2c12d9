package group

import (
	"cmp"
	"encoding/json"
	"slices"
	"testing"

	"github.com/nvmeof-go/nvmeof/internal/group/state"
)

// TestSurvivors: a gateway that has ended serves nothing once others have taken its groups.
func TestSurvivors(t *testing.T) {
	entry := func(key string, v any) state.Entry {
		text, err := json.Marshal(v)
		if err != nil {
			t.Fatal(err)
		}
		return state.Entry{Key: key, Value: text, Revision: 1}
	}
	all := []state.Entry{
		entry(fenceKey("d"), FenceRecord{Version: version, Name: "dead", Incarnation: "d", Done: true}),
		entry(fenceKey("g"), FenceRecord{Version: version, Name: "gone", Incarnation: "g", Done: true}),
		entry(memberKey("alive"), Member{Version: version, Name: "alive", Incarnation: "a"}),
		entry(memberKey("dead"), Member{Version: version, Name: "dead", Incarnation: "d", Ended: true}),
		entry(memberKey("ended"), Member{Version: version, Name: "ended", Incarnation: "e", Ended: true}),
		entry(memberKey("left"), Member{Version: version, Name: "left", Incarnation: "l", Ended: true}),
		entry(ownerKey(1), Owner{Version: version, Owner: "alive", Incarnation: "a", Phase: Owned}),
		entry(ownerKey(2), Owner{Version: version, Owner: "dead", Incarnation: "d", Phase: Owned}),
		entry(ownerKey(3), Owner{Version: version, Owner: "ended", Incarnation: "e", Phase: Owned}),
		entry(ownerKey(4), Owner{Version: version, Phase: Free, Owner: "left", Incarnation: "l"}),
	}
	slices.SortFunc(all, func(a, b state.Entry) int { return cmp.Compare(a.Key, b.Key) })
	if got, err := Survivors(state.Snapshot{Entries: all}); err != nil || !slices.Equal(got, []string{"alive", "dead", "ended"}) {
		t.Errorf("%q, %v", got, err)
	}
	if _, err := Survivors(state.Snapshot{Entries: []state.Entry{{Key: memberKey("new"), Value: []byte(`{"version": 99}`)}}}); err == nil {
		t.Error("a value of a later version is passed over")
	}
}
