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

// A stateRecord is the stored form of a state.
type stateRecord struct {
	Generation  uint32             `json:"generation"`
	Type        uint8              `json:"type"`
	Holder      string             `json:"holder,omitempty"`
	Registrants []registrantRecord `json:"registrants"`
	// Volatile means that the state does not survive a power loss, that is the end of all targets which serve the
	// namespace. Only EncodeAll sets it.
	Volatile bool `json:"volatile,omitempty"`
}

// A noticeRecord is a notice of the change that led to the record.
type noticeRecord struct {
	Host string                    `json:"host"`
	What capsule.ReservationNotice `json:"what"`
}

// registrantRecord has the key as text, since JSON numbers only have 53 bits.
type registrantRecord struct {
	Host string     `json:"host"`
	Key  string     `json:"key"`
	NQN  nvmeof.NQN `json:"nqn,omitempty"`
}

// An Owner identifies the namespace to which the store of a record belongs. The zero value means that it is
// unknown.
type Owner struct {
	Subsystem nvmeof.NQN   `json:"subsystem"`
	NSID      capsule.NSID `json:"nsid"`
	UUID      string       `json:"uuid,omitempty"`
	NGUID     string       `json:"nguid,omitempty"`
	EUI64     string       `json:"eui64,omitempty"`
	// Export is the path or image whose data hosts have reserved. It is empty if it is unknown or has no unique
	// name.
	Export string `json:"export,omitempty"`
}

// At reports whether o and p have the same NSID.
func (o Owner) At(p Owner) bool { return o.Subsystem == p.Subsystem && o.NSID == p.NSID }

// Same reports whether o and p are the same namespace: for hosts, or because they have the same export under
// another identifier or NSID. An unknown owner may be any namespace. Another export at the same NSID is another
// namespace, unless the identifiers are unknown.
func (o Owner) Same(p Owner) bool {
	shared := func(a, b string) bool { return a == b && a != "" }
	differ := func(a, b string) bool { return a != b && a != "" && b != "" }
	switch {
	case o == (Owner{}) || p == (Owner{}):
		return true
	case shared(o.UUID, p.UUID) || shared(o.NGUID, p.NGUID) || shared(o.EUI64, p.EUI64) || shared(o.Export, p.Export):
		return true
	}
	return o.At(p) && !differ(o.UUID, p.UUID) && !differ(o.NGUID, p.NGUID) && !differ(o.Export, p.Export)
}

func (o Owner) String() string {
	of := ""
	if o.UUID != "" {
		of = "UUID " + o.UUID
	}
	if o.Export != "" && of != "" {
		of += ", "
	}
	return fmt.Sprintf("namespace %d of %s (%s%s)", o.NSID, o.Subsystem, of, o.Export)
}

// An ownedRecord is the body of a record of version 2. In version 1 the body was the State field.
type ownedRecord struct {
	Namespace Owner           `json:"namespace"`
	State     json.RawMessage `json:"state"`
	Notices   []noticeRecord  `json:"notices,omitempty"`
}

const recordVersion = 2

// Encode returns the state of a namespace in the form that Decode reads. It omits a state that does not survive a
// power loss.
func (s *State) Encode(of Owner) ([]byte, error) {
	if !s.Persist {
		return seal(ownedRecord{Namespace: of, State: []byte("null")})
	}
	return s.EncodeAll(of, nil)
}

// EncodeAll is Encode without that omission, for other targets that serve the namespace. It includes the notices
// of the change that led to the state.
func (s *State) EncodeAll(of Owner, notices []Notice) ([]byte, error) {
	body := stateRecord{Registrants: []registrantRecord{}, Generation: s.Generation, Type: uint8(s.Type), Volatile: !s.Persist}
	if s.Holder != (capsule.HostID{}) {
		body.Holder = hex.EncodeToString(s.Holder[:])
	}
	for _, r := range s.Registrants {
		body.Registrants = append(body.Registrants, registrantRecord{hex.EncodeToString(r.Host[:]), fmt.Sprintf("%016x", uint64(r.Key)), r.NQN})
	}
	state, err := json.Marshal(body)
	if err != nil {
		return nil, err
	}
	r := ownedRecord{Namespace: of, State: state}
	for _, n := range notices {
		r.Notices = append(r.Notices, noticeRecord{hex.EncodeToString(n.Host[:]), n.What})
	}
	return seal(r)
}

func seal(r ownedRecord) ([]byte, error) {
	text, err := json.Marshal(r)
	if err != nil {
		return nil, err
	}
	return sealed.Seal(recordVersion, text)
}

// DecodeNotices decodes the result of EncodeAll, with its notices.
func DecodeNotices(b []byte) (s State, of Owner, notices []Notice, err error) {
	if s, of, err = Decode(b); err != nil {
		return s, of, nil, err
	}
	var r ownedRecord
	if body, err := sealed.Open(recordVersion, b); err != nil || json.Unmarshal(body, &r) != nil {
		return s, of, nil, nil // version 1 has none
	}
	for _, n := range r.Notices {
		x := Notice{What: n.What}
		if decodeHost(n.Host, &x.Host) {
			notices = append(notices, x)
		}
	}
	return s, of, notices, nil
}

// Survive returns the part of a record that survives the end of all targets which serve the namespace.
func Survive(b []byte) ([]byte, error) {
	s, of, err := Decode(b)
	if err != nil {
		return nil, err
	}
	return s.Encode(of)
}

// Decode decodes the result of Encode, including that of version 1, whose owner is unknown. Any deviation is an
// error: if a reservation were lost, hosts would overwrite each other's data.
func Decode(b []byte) (State, Owner, error) {
	body, err := sealed.Open(recordVersion, b)
	if err != nil {
		if old, other := sealed.Open(1, b); other == nil {
			s, err := decodeState(old)
			return s, Owner{}, err
		}
		return State{}, Owner{}, fmt.Errorf("reservations: %w", err)
	}
	var r ownedRecord
	if err := json.Unmarshal(body, &r); err != nil {
		return State{}, Owner{}, fmt.Errorf("reservations: %w: %w", sealed.ErrDamaged, err)
	}
	s, err := decodeState(r.State)
	return s, r.Namespace, err
}

func decodeState(text []byte) (State, error) {
	if string(text) == "null" {
		return State{}, nil
	}
	var body stateRecord
	if err := json.Unmarshal(text, &body); err != nil {
		return State{}, fmt.Errorf("reservations: %w: %w", sealed.ErrDamaged, err)
	}
	s := State{Generation: body.Generation, Type: capsule.ReservationType(body.Type), Persist: !body.Volatile}
	ok := body.Holder == "" || decodeHost(body.Holder, &s.Holder)
	for _, r := range body.Registrants {
		key, err := strconv.ParseUint(r.Key, 16, 64)
		e := Registrant{Key: capsule.ReservationKey(key), NQN: r.NQN}
		ok = ok && err == nil && decodeHost(r.Host, &e.Host) && len(r.NQN) <= capsule.MaxNQN
		s.Registrants = append(s.Registrants, e)
	}
	if !ok || !s.Check() {
		return State{}, fmt.Errorf("reservations: %w: its state is not possible", sealed.ErrDamaged)
	}
	return s, nil
}

func decodeHost(text string, h *capsule.HostID) bool {
	b, err := hex.DecodeString(text)
	return err == nil && copy(h[:], b) == len(h) && len(b) == len(h)
}
