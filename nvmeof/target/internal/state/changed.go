package state

import "github.com/nvmeof-go/nvmeof/capsule"

// ChangedNamespaces accumulates the Changed Namespace List log.
type ChangedNamespaces struct {
	ids []capsule.NSID // ascending
	all bool           // more changed than the list holds
}

// Add adds a namespace.
func (l *ChangedNamespaces) Add(id capsule.NSID) {
	at := 0
	for at < len(l.ids) && l.ids[at] < id {
		at++
	}
	switch {
	case l.all || at < len(l.ids) && l.ids[at] == id:
	case len(l.ids) == capsule.NamespaceListEntries:
		l.ids, l.all = nil, true
	default:
		l.ids = append(l.ids, 0)
		copy(l.ids[at+1:], l.ids[at:])
		l.ids[at] = id
	}
}

// Encode fills b. If the list has overflowed, entry 0 is FFFFFFFFh.
func (l *ChangedNamespaces) Encode(b []byte) {
	if l.all {
		capsule.PutNamespaceList(b, []capsule.NSID{capsule.NSIDBroadcast})
		return
	}
	capsule.PutNamespaceList(b, l.ids)
}

// Clear empties the list after the host has read it.
func (l *ChangedNamespaces) Clear() { l.ids, l.all = l.ids[:0], false }
