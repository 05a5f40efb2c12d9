package group

import (
	"fmt"

	"github.com/nvmeof-go/nvmeof/internal/group/state"
)

// A Record is the reservation of a namespace as stored. Only the owner of the namespace's ANA group changes it.
type Record struct {
	Version  int    `json:"version"`
	Revision uint64 `json:"revision"` // number of changes
	Epoch    uint64 `json:"epoch"`    // of the owner that has changed it last
	// Session is that of the gateway that has changed it last. State that does not survive a power loss is void in
	// another session.
	Session Incarnation `json:"session,omitempty"`
	State   []byte      `json:"state"` // registrants and reservation, in the target's format
}

// RecordPrefix is the prefix of the keys of reservations.
const RecordPrefix = "reservation/"

// RecordKey returns the key of the reservation of a namespace, given its UUID.
func RecordKey(namespace string) string { return RecordPrefix + namespace }

// ReadRecord decodes the value of such a key.
func ReadRecord(e state.Entry) (Record, error) {
	var r Record
	if err := decode(e.Value, &r); err != nil {
		return r, fmt.Errorf("%s in the group's store: %w", e.Key, err)
	}
	return r, nil
}

// Change returns the transaction that changes a reservation to a state. before is what was read; it is empty if there
// was no reservation. The transaction is executed only while the gateway owns the ANA group in the hold's epoch. If it
// is not executed, the gateway may have lost the group, and must read both before it continues.
//
// Before an owner refuses a command because of a reservation, or reports a reservation, it executes a transaction that
// contains only the guard: it may have been fenced, and the reservation may have changed since.
func (h *Hold) Change(before state.Entry, next []byte) (state.Txn, Record, error) {
	r := Record{Version: version, Epoch: h.Epoch, Session: h.Session, State: next}
	if len(before.Value) > 0 {
		last, err := ReadRecord(before)
		if err != nil {
			return state.Txn{}, r, err
		}
		r.Revision = last.Revision
	}
	r.Revision++
	return state.Txn{
		If:   append(append([]state.Compare(nil), h.Guard...), state.Compare{Key: before.Key, Revision: before.Revision}),
		Then: []state.Op{put(before.Key, encode(r, before.Value))},
	}, r, nil
}
