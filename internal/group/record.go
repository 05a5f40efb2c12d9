package group

import (
	"fmt"

	"github.com/nvmeof-go/nvmeof/internal/group/state"
)

// A Record is the reservation of a namespace, as the store has it. Only the owner of the
// namespace's ANA group changes it.
type Record struct {
	Version  int    `json:"version"`
	Revision uint64 `json:"revision"` // how often it was changed
	Epoch    uint64 `json:"epoch"`    // of the owner that has changed it last
	// Session is that of the gateway which has changed it last. What of the state does not survive
	// a power loss is void in another session.
	Session Incarnation `json:"session,omitempty"`
	State   []byte      `json:"state"` // registrants and reservation, in the target's form
}

// RecordPrefix is that of the keys of reservations.
const RecordPrefix = "reservation/"

// RecordKey is the key of the reservation of a namespace, by its UUID.
func RecordKey(namespace string) string { return RecordPrefix + namespace }

// ReadRecord reads the value of such a key.
func ReadRecord(e state.Entry) (Record, error) {
	var r Record
	if err := decode(e.Value, &r); err != nil {
		return r, fmt.Errorf("%s in the group's store: %w", e.Key, err)
	}
	return r, nil
}

// Change is the transaction that changes a reservation from what was read, which is empty if there
// was none, to a state. It is carried out only while the gateway owns the ANA group in the
// hold's epoch: where it is not, the gateway may not be the owner any more, and reads both before
// it goes on.
//
// Before an owner refuses a command for a reservation, or reports one, it carries out a
// transaction that has nothing but the guard: it may have been fenced, and the reservation
// changed since.
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
