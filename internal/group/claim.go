package group

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/nvmeof-go/nvmeof/internal/group/state"
)

// ClaimSlot finds the range of controller identifiers of a gateway's name among what the store has
// under GroupPrefix: that which it has, or the first free one, with the transaction that makes it
// the gateway's. A target needs it before there is an engine.
func ClaimSlot(all []state.Entry, name string, slots int) (slot int, t *state.Txn, err error) {
	taken := map[string]bool{}
	for _, e := range all {
		if !strings.HasPrefix(e.Key, slotPrefix) {
			continue
		}
		taken[e.Key] = true
		var holder SlotHolder
		if err := decode(e.Value, &holder); err != nil || holder.Name != name {
			continue // one that cannot be read is taken all the same
		}
		if _, err := fmt.Sscanf(strings.TrimPrefix(e.Key, slotPrefix), "%d", &slot); err == nil {
			return slot, nil, nil
		}
	}
	var view view
	view.read(state.Snapshot{Entries: all})
	for slot = 1; slot <= cmp.Or(slots, defaultSlots); slot++ {
		if key := slotKey(slot); !taken[key] && !view.registered(slot, name) {
			return slot, &state.Txn{If: []state.Compare{{Key: key}}, Then: []state.Op{put(key, encode(SlotHolder{version, name}, nil))}}, nil
		}
	}
	return 0, nil, fmt.Errorf("all %d ranges of controller identifiers are taken: remove a gateway that is no more (nvmeof gateway remove)", cmp.Or(slots, defaultSlots))
}

// registered reports whether another gateway goes by a range, whose key somebody has removed from the store: hosts refuse a
// controller whose identifier is that of another one.
func (v *view) registered(slot int, name string) bool {
	return slices.ContainsFunc(v.members, func(m entry[Member]) bool { return m.err == nil && m.value.Slot == slot && m.value.Name != name })
}
