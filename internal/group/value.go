package group

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"reflect"
	"strconv"
	"strings"

	"github.com/nvmeof-go/nvmeof/internal/group/state"
)

// version is the version of the values. A gateway preserves fields that it does not know, and does not touch values of
// later versions.
const version = 1

// An ID is the identifier of an ANA group.
type ID uint16

// MaxID is the greatest identifier of an ANA group.
const MaxID ID = 128

// An Incarnation is a random name of a gateway from its registration to its end.
type Incarnation string

// A Member is the registration of a gateway.
type Member struct {
	Version     int         `json:"version"`
	Name        string      `json:"name"`
	Incarnation Incarnation `json:"incarnation"`
	Addresses   []string    `json:"addresses,omitempty"` // to which hosts connect
	Storage     []string    `json:"storage,omitempty"`   // of its storage clients, by which it is fenced
	Slot        int         `json:"slot"`                // of controller identifiers
	Session     Incarnation `json:"session,omitempty"`   // the one to which it belongs; empty: not known yet
	Leaving     bool        `json:"leaving,omitempty"`   // it gives back all groups, gets none, and ends
	Ended       bool        `json:"ended,omitempty"`     // it has left, or there is a fence record
}

// A Beat is the heartbeat of a gateway.
type Beat struct {
	Version     int           `json:"version"`
	Incarnation Incarnation   `json:"incarnation"`
	Count       uint64        `json:"count"`
	Loads       map[ID]uint64 `json:"loads,omitempty"`    // of the groups that it serves
	Sizes       map[ID]int64  `json:"sizes,omitempty"`    // bytes of the namespaces of each of these
	Sick        bool          `json:"sick,omitempty"`     // it should get no groups: it cannot fence, is stuck, or lacks the configuration
	Stuck       bool          `json:"stuck,omitempty"`    // it cannot serve: see Health
	Starting    bool          `json:"starting,omitempty"` // it is sick only because it has just been started: see Behind
}

// An Owner says which gateway owns an ANA group.
type Owner struct {
	Version     int         `json:"version"`
	Owner       string      `json:"owner,omitempty"` // "": none
	Incarnation Incarnation `json:"incarnation,omitempty"`
	Epoch       uint64      `json:"epoch"`
	Phase       Phase       `json:"phase"`
	Backend     Backend     `json:"backend"`
	Reason      Reason      `json:"reason,omitempty"` // why the previous owner has given it away
}

// A Phase says whether an ANA group has an owner.
type Phase string

// The phases of an ANA group.
const (
	Free  Phase = "free"
	Owned Phase = "owned"
)

// A Backend says how a previous owner of an ANA group is kept from writing.
type Backend string

// The kinds of backends.
const (
	Fenced Backend = "fenced" // the storage refuses a fenced incarnation
	Lease  Backend = "lease"  // the owner stops by its own clock: unfenced
	None   Backend = "none"   // no other gateway has the data: the group does not move
)

// A Move is the request for another owner of an ANA group.
type Move struct {
	Version int    `json:"version"`
	To      string `json:"to,omitempty"`   // "": none
	Must    bool   `json:"must,omitempty"` // an owner that cannot drain it ends its incarnation
	Reason  Reason `json:"reason,omitempty"`
}

// A FenceRecord says that an incarnation has ended, and by which addresses the storage can refuse it.
type FenceRecord struct {
	Version     int            `json:"version"`
	Name        string         `json:"name"`
	Incarnation Incarnation    `json:"incarnation"`
	Storage     []string       `json:"storage,omitempty"`
	Beat        state.Revision `json:"beat,omitempty"` // of its last heartbeat, if known
	Done        bool           `json:"done,omitempty"` // the storage refuses it
	Gone        bool           `json:"gone,omitempty"` // its process is known to have ended, so that the fence need not be renewed
}

// A SlotHolder is the gateway that has a range of controller identifiers.
type SlotHolder struct {
	Version int    `json:"version"`
	Name    string `json:"name"`
}

// An Order is the administrator's order for a gateway.
type Order struct {
	Version int  `json:"version"`
	Drained bool `json:"drained,omitempty"` // it must own nothing
}

// A Listing is written whenever the set of registered gateways changes. Only the revision of its key matters, which
// grows.
type Listing struct {
	Version int    `json:"version"`
	By      string `json:"by,omitempty"` // the gateway that has made the change
}

// ListingKey is the key of the Listing.
const ListingKey = GroupPrefix + "listing"

// Prefixes of an engine's keys: those that are watched, and heartbeats.
const (
	GroupPrefix = "group/"
	BeatPrefix  = "beat/"

	memberPrefix = GroupPrefix + "member/"
	ownerPrefix  = GroupPrefix + "owner/"
	movePrefix   = GroupPrefix + "move/"
	fencePrefix  = GroupPrefix + "fence/"
	slotPrefix   = GroupPrefix + "slot/"
	orderPrefix  = GroupPrefix + "order/"
)

func memberKey(name string) string      { return memberPrefix + name }
func beatKey(name string) string        { return BeatPrefix + name }
func ownerKey(id ID) string             { return numbered(ownerPrefix, int(id)) }
func moveKey(id ID) string              { return numbered(movePrefix, int(id)) }
func fenceKey(inc Incarnation) string   { return fencePrefix + string(inc) }
func slotKey(slot int) string           { return numbered(slotPrefix, slot) }
func orderKey(name string) string       { return orderPrefix + name }
func put(key string, b []byte) state.Op { return state.Op{Key: key, Value: b} }

// numbered returns a key with a number of at least three digits, so that keys are in the order of numbers.
func numbered(prefix string, n int) string {
	digits := strconv.Itoa(n)
	return prefix + "000"[min(len(digits), 3):] + digits
}

// ownerID returns the group of an owner's key. A group has exactly one such key.
func ownerID(key string) (ID, bool) {
	n, err := strconv.ParseUint(strings.TrimPrefix(key, ownerPrefix), 10, 16)
	return ID(n), err == nil && key == ownerKey(ID(n))
}

// encode returns the value of v, with the fields of the replaced value that this version does not know.
func encode(v any, replaced []byte) []byte {
	b, err := json.Marshal(v)
	if err != nil {
		panic(err) // impossible for structs of strings and numbers
	}
	if len(replaced) == 0 {
		return b
	}
	unknown, now := map[string]json.RawMessage{}, map[string]json.RawMessage{}
	if json.Unmarshal(replaced, &unknown) != nil {
		return b
	}
	for name := range fields(v) {
		delete(unknown, name)
	}
	if len(unknown) == 0 || json.Unmarshal(b, &now) != nil {
		return b
	}
	maps.Copy(now, unknown)
	if b, err = json.Marshal(now); err != nil {
		panic(err)
	}
	return b
}

// fields returns the JSON names of a struct's fields.
func fields(v any) map[string]bool {
	known, t := map[string]bool{}, reflect.TypeOf(v)
	for i := range t.NumField() {
		name, _, _ := strings.Cut(t.Field(i).Tag.Get("json"), ",")
		known[name] = true
	}
	return known
}

// decode decodes a value into v, a pointer to a struct with a Version. It rejects values of a later version, and values
// without a version: no gateway has written these, and their empty fields mean nothing.
func decode(b []byte, v any) error {
	if err := json.Unmarshal(b, v); err != nil {
		return err
	}
	switch of := reflect.ValueOf(v).Elem().FieldByName("Version").Int(); {
	case of < 1:
		return errors.New("the value is damaged: it has no version, so no gateway wrote it")
	case of > version:
		return fmt.Errorf("the value is %w %d, but this gateway knows only %d: upgrade this gateway", errLater, of, version)
	}
	return nil
}

// errLater is wrapped by the error for a value that is not damaged but was written by a later version.
var errLater = errors.New("of version")
