package group

import (
	"cmp"
	"fmt"
	"strings"

	"github.com/nvmeof-go/nvmeof/internal/group/state"
)

// SlotPrefix is that of the keys of ranges of controller identifiers.
const SlotPrefix = slotPrefix

// ClaimSlot finds the range of controller identifiers of a gateway's name among what the store has
// under SlotPrefix: that which it has, or the first free one, with the transaction that makes it
// the gateway's. A target needs it before there is an engine.
func ClaimSlot(all []state.Entry, name string, slots int) (slot int, t *state.Txn, err error) {
	taken := map[string]bool{}
	for _, e := range all {
		taken[e.Key] = true
		var holder SlotHolder
		if err := decode(e.Value, &holder); err != nil || holder.Name != name {
			continue // one that cannot be read is taken all the same
		}
		if _, err := fmt.Sscanf(strings.TrimPrefix(e.Key, slotPrefix), "%d", &slot); err == nil {
			return slot, nil, nil
		}
	}
	for slot = 1; slot <= cmp.Or(slots, defaultSlots); slot++ {
		if key := slotKey(slot); !taken[key] {
			return slot, &state.Txn{If: []state.Compare{{Key: key}}, Then: []state.Op{put(key, encode(SlotHolder{version, name}, nil))}}, nil
		}
	}
	return 0, nil, fmt.Errorf("all %d ranges of controller identifiers are taken: remove a gateway that is no more (nvmeof gateway remove)", len(taken))
}
