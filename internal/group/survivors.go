package group

import (
	"fmt"
	"slices"

	"github.com/nvmeof-go/nvmeof/internal/group/state"
)

// Survivors returns the names of the gateways that may still serve something, given the store's entries under
// GroupPrefix. These are the registered gateways that have not ended, and those that have ended and whose groups no
// gateway has taken over yet: it is not known whether the storage refuses them.
func Survivors(s state.Snapshot) (names []string, err error) {
	var v view
	v.read(s)
	if key, err := v.unreadable(); err != nil {
		return nil, fmt.Errorf("%s: %w", key, err)
	}
	for i := range v.members {
		m := &v.members[i].value
		if !m.Ended || v.owns(m.Incarnation) {
			names = append(names, m.Name)
		}
	}
	for i := range v.fences {
		if f := &v.fences[i].value; v.owns(f.Incarnation) {
			names = append(names, f.Name)
		}
	}
	slices.Sort(names)
	return slices.Compact(names), nil
}
