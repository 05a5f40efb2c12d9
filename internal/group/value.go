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

// version is that of the values. A gateway keeps fields that it does not know, and leaves
// alone what has a later version.
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
	Addresses   []string    `json:"addresses,omitempty"` // which hosts connect to
	Storage     []string    `json:"storage,omitempty"`   // of its clients at the storage, by which it is fenced
	Slot        int         `json:"slot"`                // of controller identifiers
	Session     Incarnation `json:"session,omitempty"`   // which it belongs to; empty: that is not known yet
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
	Sick        bool          `json:"sick,omitempty"`     // it should get no groups: it cannot fence, is stuck, or does not have the configuration
	Stuck       bool          `json:"stuck,omitempty"`    // it cannot serve: see Health
	Starting    bool          `json:"starting,omitempty"` // it is sick since it has just been started: see Behind
}

// An Owner says who owns an ANA group.
type Owner struct {
	Version     int         `json:"version"`
	Owner       string      `json:"owner,omitempty"` // "": nobody
	Incarnation Incarnation `json:"incarnation,omitempty"`
	Epoch       uint64      `json:"epoch"`
	Phase       Phase       `json:"phase"`
	Backend     Backend     `json:"backend"`
	Reason      Reason      `json:"reason,omitempty"` // why the owner before has given it away
}

// A Phase says whether an ANA group has an owner.
type Phase string

// The phases of an ANA group.
const (
	Free  Phase = "free"
	Owned Phase = "owned"
)

// A Backend says how the owner of an ANA group is kept from writing when it has another.
type Backend string

// The kinds of backends.
const (
	Fenced Backend = "fenced" // the storage refuses what comes from a fenced incarnation
	Lease  Backend = "lease"  // the owner ends by its own clock: unfenced
	None   Backend = "none"   // nobody else has the data: the group does not move
)

// A Move is the wish that an ANA group has another owner.
type Move struct {
	Version int    `json:"version"`
	To      string `json:"to,omitempty"`   // "": nobody
	Must    bool   `json:"must,omitempty"` // an owner that cannot drain it ends its incarnation
	Reason  Reason `json:"reason,omitempty"`
}

// A FenceRecord says that an incarnation has ended, and how the storage is made to refuse it.
type FenceRecord struct {
	Version     int            `json:"version"`
	Name        string         `json:"name"`
	Incarnation Incarnation    `json:"incarnation"`
	Storage     []string       `json:"storage,omitempty"`
	Beat        state.Revision `json:"beat,omitempty"` // of its last heartbeat, where that is known
	Done        bool           `json:"done,omitempty"` // the storage refuses it
	Gone        bool           `json:"gone,omitempty"` // its process is known to have ended, so that the fence need not be renewed
}

// A SlotHolder is the gateway that has a range of controller identifiers.
type SlotHolder struct {
	Version int    `json:"version"`
	Name    string `json:"name"`
}

// An Order is what the administrator wants of a gateway.
type Order struct {
	Version int  `json:"version"`
	Drained bool `json:"drained,omitempty"` // it is to own nothing
}

// A Listing is put whenever another set of gateways is registered. What counts is the revision of
// its key, which grows.
type Listing struct {
	Version int    `json:"version"`
	By      string `json:"by,omitempty"` // the gateway that has made the change
}

// ListingKey is that of the Listing.
const ListingKey = GroupPrefix + "listing"

// Prefixes of the keys of an engine: what is watched, and heartbeats.
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

// numbered is a key with a number of three digits or more, so that keys are in its order.
func numbered(prefix string, n int) string {
	digits := strconv.Itoa(n)
	return prefix + "000"[min(len(digits), 3):] + digits
}

// ownerID is the group that a key of an owner is of. A group has one such key.
func ownerID(key string) (ID, bool) {
	n, err := strconv.ParseUint(strings.TrimPrefix(key, ownerPrefix), 10, 16)
	return ID(n), err == nil && key == ownerKey(ID(n))
}

// encode returns the value with the fields of what it replaces that this version does not
// know.
func encode(v any, replaced []byte) []byte {
	b, err := json.Marshal(v)
	if err != nil {
		panic(err) // structs of strings and numbers
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

// fields are the names of a struct's fields in JSON.
func fields(v any) map[string]bool {
	known, t := map[string]bool{}, reflect.TypeOf(v)
	for i := range t.NumField() {
		name, _, _ := strings.Cut(t.Field(i).Tag.Get("json"), ",")
		known[name] = true
	}
	return known
}

// decode reads a value, a pointer to a struct with a Version, and refuses that of a later version, and one of none:
// no gateway has made it, and its fields, which are empty, say nothing.
func decode(b []byte, v any) error {
	if err := json.Unmarshal(b, v); err != nil {
		return err
	}
	switch of := reflect.ValueOf(v).Elem().FieldByName("Version").Int(); {
	case of < 1:
		return errors.New("a value without a version, which no gateway has made: it is damaged")
	case of > version:
		return fmt.Errorf("a value %w %d, of which this gateway knows %d: upgrade it", errLater, of, version)
	}
	return nil
}

// errLater is wrapped by the error of a value that is not damaged, but which a later gateway has made.
var errLater = errors.New("of version")
