package group

import (
	"fmt"

	"github.com/nvmeof-go/nvmeof/internal/group/state"
)

// A Record is the reservation of a namespace, as the store has it (NVMe base 2.0, 8.19). Only
// the owner of the namespace's ANA group changes it.
type Record struct {
	Version     int          `json:"version"`
	Revision    uint64       `json:"revision"`   // how often it was changed
	Epoch       uint64       `json:"epoch"`      // of the owner that has changed it last
	Generation  uint32       `json:"generation"` // of the registrations, as hosts see it
	Type        uint8        `json:"type"`       // 0: none
	Holder      string       `json:"holder,omitempty"`
	Registrants []Registrant `json:"registrants,omitempty"`
	PTPL        bool         `json:"ptpl,omitempty"` // it persists through power loss
}

// A Registrant is a host with its key.
type Registrant struct {
	Host string `json:"host"` // its host identifier, in hexadecimal digits
	NQN  string `json:"nqn,omitempty"`
	Key  uint64 `json:"key"`
}

// RecordPrefix is that of the keys of reservations.
const RecordPrefix = "reservation/"

// RecordKey is the key of the reservation of a namespace, by its UUID.
func RecordKey(namespace string) string { return RecordPrefix + namespace }

// ReadRecord reads a value under such a key.
func ReadRecord(b []byte) (Record, error) {
	var r Record
	if err := decode(b, &r); err != nil {
		return r, fmt.Errorf("reservation: %w", err)
	}
	return r, nil
}

// ChangeRecord is the transaction that changes a reservation from what was read, which is
// empty if there was none. It is carried out only in the epoch of the guard: where it is not,
// the gateway may not be the owner any more, and reads both before it goes on.
//
// Before an owner refuses a command for a reservation, or reports one, it carries out a
// transaction that has nothing but the guard: it may have been fenced, and the reservation
// changed since.
func ChangeRecord(epoch uint64, guard []state.Compare, before state.Entry, next Record) (state.Txn, Record, error) {
	last := Record{}
	if len(before.Value) > 0 {
		var err error
		if last, err = ReadRecord(before.Value); err != nil {
			return state.Txn{}, next, err
		}
	}
	next.Version, next.Revision, next.Epoch = version, last.Revision+1, epoch
	return state.Txn{
		If:   append(append([]state.Compare(nil), guard...), state.Compare{Key: before.Key, Revision: before.Revision}),
		Then: []state.Op{put(before.Key, encode(next, before.Value))},
	}, next, nil
}
