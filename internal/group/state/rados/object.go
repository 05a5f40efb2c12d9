package rados

import (
	"encoding/binary"
	"strings"
	"time"

	"github.com/nvmeof-go/nvmeof/internal/group/state"
)

// An object is the group's object in the cluster. Any goroutine may call its methods, which wait for the cluster.
type object interface {
	// write executes all steps, or none. The error is ECANCELED if a comparison does not hold.
	write(steps []step) error
	// read returns the entries of keys, and pages of entries, all at one point in time.
	read(keys []string, pages ...page) (named []entry, listed []listed, err error)
	watch() (watch, error)
	// notify sends a message to the watchers without waiting for them.
	notify(message string) error
	close()
}

// A watch belongs to one goroutine, except for wake.
type watch interface {
	// next waits for messages, at most for a time. An error means that the watch is lost.
	next(most time.Duration) ([][]byte, error)
	// wake makes next return.
	wake()
	close()
}

// A dialer opens the object of a group. It creates a missing object with the steps.
type dialer func(cfg *Config, fresh []step) (object, error)

type stepKind uint8

const (
	stepCompare stepKind = iota // a missing key has the empty value
	stepSet
	stepRemove
)

type step struct {
	kind  stepKind
	key   string
	value []byte
}

type entry struct {
	key   string
	value []byte
}

// A page selects up to most entries whose keys begin with a prefix and follow a given key.
type page struct {
	prefix, after string
	most          int
}

// A listed is a page that was read.
type listed struct {
	entries []entry
	more    bool // entries follow
}

// Keys of the object. A key of the state has a letter before it, so that keys cannot collide.
const counter = "counter"

// The library treats some names as C strings, so a zero byte is encoded as two bytes that preserve the order of keys.
var (
	escapes   = strings.NewReplacer("\x00", "\x01\x01", "\x01", "\x01\x02")
	unescapes = strings.NewReplacer("\x01\x01", "\x00", "\x01\x02", "\x01")
)

func valueKey(key string) string    { return "v" + escapes.Replace(key) }
func revisionKey(key string) string { return "r" + escapes.Replace(key) }
func ofValueKey(key string) string  { return unescapes.Replace(key[1:]) }

// bytesOf encodes a revision as a value. That of a missing key is empty.
func bytesOf(r state.Revision) []byte {
	if r == 0 {
		return nil
	}
	return binary.BigEndian.AppendUint64(nil, uint64(r))
}

func revisionOf(b []byte) state.Revision {
	if len(b) < 8 {
		return 0
	}
	return state.Revision(binary.BigEndian.Uint64(b))
}

// stored returns the entry of the state that is in a value of the object. A value that is too short for a revision was put
// by hand. It is not left out, so that the reader finds it damaged and names its key. It gets a revision that no
// transaction has had, and not 0, which is that of a missing key.
func stored(e entry) state.Entry {
	if len(e.value) < 8 {
		padded := []byte("\xff\xff\xff\xff\xff\xff\xff\xff")
		copy(padded, e.value)
		return state.Entry{Key: ofValueKey(e.key), Value: e.value, Revision: revisionOf(padded)}
	}
	return state.Entry{Key: ofValueKey(e.key), Value: e.value[8:], Revision: revisionOf(e.value)}
}

// storedIn returns the revision of a value of the object, 0 if there is none.
func storedIn(entries []entry, key string) state.Revision {
	for _, e := range entries {
		if e.key == key {
			return stored(e).Revision
		}
	}
	return 0
}

// revisionIn returns the revision under a key of the object.
func revisionIn(entries []entry, key string) state.Revision {
	for _, e := range entries {
		if e.key == key {
			return revisionOf(e.value)
		}
	}
	return 0
}
