package group

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/nvmeof-go/nvmeof/internal/group/state"
)

// ClaimSlot returns the range of controller identifiers of a gateway, given the store's entries under GroupPrefix: the
// range that the name has, or the first free one together with the transaction that claims it. A target needs its range
// before it has an engine.
func ClaimSlot(all []state.Entry, name string, slots int) (slot int, t *state.Txn, err error) {
	taken := map[string]bool{}
	for _, e := range all {
		if !strings.HasPrefix(e.Key, slotPrefix) {
			continue
		}
		taken[e.Key] = true
		var holder SlotHolder
		if err := decode(e.Value, &holder); err != nil || holder.Name != name {
			continue // a range that cannot be read is not free
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
	return 0, nil, fmt.Errorf("all %d ranges of controller identifiers are in use: remove a gateway that no longer exists (nvmeof gateway remove)", cmp.Or(slots, defaultSlots))
}

// registered reports whether a gateway with another name is registered with a range although its key was removed from
// the store. Hosts reject a controller whose identifier is that of another one.
func (v *view) registered(slot int, name string) bool {
	return slices.ContainsFunc(v.members, func(m entry[Member]) bool { return m.err == nil && m.value.Slot == slot && m.value.Name != name })
}
