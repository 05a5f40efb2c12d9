package reservation

import (
	"encoding/hex"
	"encoding/json"
	"fmt"
	"strconv"

	"github.com/nvmeof-go/nvmeof/capsule"
	"github.com/nvmeof-go/nvmeof/nvmeof"
	"github.com/nvmeof-go/nvmeof/nvmeof/target/internal/sealed"
)

// A stateRecord is a state as it is stored, sealed.
type stateRecord struct {
	Generation  uint32             `json:"generation"`
	Type        uint8              `json:"type"`
	Holder      string             `json:"holder,omitempty"`
	Registrants []registrantRecord `json:"registrants"`
}

// Numbers of JSON have 53 bits, so keys are text.
type registrantRecord struct {
	Host string     `json:"host"`
	Key  string     `json:"key"`
	NQN  nvmeof.NQN `json:"nqn,omitempty"`
}

const recordVersion = 1

// Encode returns the state in the form that Decode reads. It omits what does not survive
// a power loss.
func (s *State) Encode() ([]byte, error) {
	body := stateRecord{Registrants: []registrantRecord{}}
	if s.Persist {
		body.Generation, body.Type = s.Generation, uint8(s.Type)
		if s.Holder != (capsule.HostID{}) {
			body.Holder = hex.EncodeToString(s.Holder[:])
		}
		for _, r := range s.Registrants {
			body.Registrants = append(body.Registrants, registrantRecord{hex.EncodeToString(r.Host[:]), fmt.Sprintf("%016x", uint64(r.Key)), r.NQN})
		}
	}
	text, err := json.Marshal(body)
	if err != nil {
		return nil, err
	}
	if !s.Persist {
		text = []byte("null")
	}
	return sealed.Seal(recordVersion, text)
}

// Decode decodes what Encode returned. Any deviation is an error: if a reservation were
// lost hosts would overwrite each other's data.
func Decode(b []byte) (State, error) {
	text, err := sealed.Open(recordVersion, b)
	switch {
	case err != nil:
		return State{}, fmt.Errorf("reservations: %w", err)
	case string(text) == "null":
		return State{}, nil
	}
	var body stateRecord
	if err := json.Unmarshal(text, &body); err != nil {
		return State{}, fmt.Errorf("reservations: %w: %w", sealed.ErrDamaged, err)
	}
	s := State{Generation: body.Generation, Type: capsule.ReservationType(body.Type), Persist: true}
	ok := body.Holder == "" || decodeHost(body.Holder, &s.Holder)
	for _, r := range body.Registrants {
		key, err := strconv.ParseUint(r.Key, 16, 64)
		e := Registrant{Key: capsule.ReservationKey(key), NQN: r.NQN}
		ok = ok && err == nil && decodeHost(r.Host, &e.Host) && len(r.NQN) <= capsule.MaxNQN
		s.Registrants = append(s.Registrants, e)
	}
	if !ok || !s.Check() {
		return State{}, fmt.Errorf("reservations: %w: it is no state that can be", sealed.ErrDamaged)
	}
	return s, nil
}

func decodeHost(text string, h *capsule.HostID) bool {
	b, err := hex.DecodeString(text)
	return err == nil && copy(h[:], b) == len(h) && len(b) == len(h)
}
