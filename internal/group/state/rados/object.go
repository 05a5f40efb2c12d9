package rados

import (
	"encoding/binary"
	"strings"
	"time"

	"github.com/nvmeof-go/nvmeof/internal/group/state"
)

// An object is the group's in the cluster. Its methods may be called from any goroutine, and
// take as long as the cluster does.
type object interface {
	// write carries out all steps, or none: ECANCELED when a comparison does not hold.
	write(steps []step) error
	// read returns the entries of keys and a page of those whose keys have a prefix, all as
	// they are at one moment.
	read(keys []string, p page) (named, listed []entry, more bool, err error)
	watch() (watch, error)
	// notify sends a message to those who watch, and waits for none of them.
	notify(message string) error
	close()
}

// A watch belongs to one goroutine, but for wake.
type watch interface {
	// next waits for messages, at most for a time. Its error says that the watch is lost.
	next(most time.Duration) ([][]byte, error)
	// wake lets next return.
	wake()
	close()
}

// A dialer opens the object of a group, and makes it with the steps where it does not exist.
type dialer func(cfg *Config, fresh []step) (object, error)

type stepKind uint8

const (
	stepCompare stepKind = iota // an empty value is also that of a key that does not exist
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

// A page is up to most entries whose keys begin with a prefix, after one.
type page struct {
	prefix, after string
	most          int
}

// Keys of the object. A key of the state is behind a letter, so that none of them is another's.
const counter = "counter"

// The library takes some names as C strings: a zero byte is written as two that keep the order of keys.
var (
	escapes   = strings.NewReplacer("\x00", "\x01\x01", "\x01", "\x01\x02")
	unescapes = strings.NewReplacer("\x01\x01", "\x00", "\x01\x02", "\x01")
)

func valueKey(key string) string    { return "v" + escapes.Replace(key) }
func revisionKey(key string) string { return "r" + escapes.Replace(key) }
func ofValueKey(key string) string  { return unescapes.Replace(key[1:]) }

// bytesOf is a revision as a value; that of what does not exist is empty.
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

// revisionIn finds the revision under a key of the object.
func revisionIn(entries []entry, key string) state.Revision {
	for _, e := range entries {
		if e.key == key {
			return revisionOf(e.value)
		}
	}
	return 0
}
