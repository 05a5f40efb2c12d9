package target

import (
	"bytes"
	"strings"
	"testing"
)

// TestMovedTypes fails if the types of the record change: then raise MovedVersion, and update the sum here.
func TestMovedTypes(t *testing.T) {
	const version, types = 6, "c4eab7c524224981"
	if now := movedTypes().String(); now != types || MovedVersion != version {
		t.Errorf("the record of version %d has the types %s, and of version %d it had %s: raise MovedVersion, and then write both here", MovedVersion, now, version, types)
	}
}

// TestMovedRefuses: a record of another build, or one that is none, is refused.
func TestMovedRefuses(t *testing.T) {
	record, err := new(Moved).MarshalBinary()
	if err != nil {
		t.Fatal(err)
	}
	if err := new(Moved).UnmarshalBinary(record); err != nil {
		t.Error(err)
	}
	at := len(movedMagic)
	for want, change := range map[string]func([]byte) []byte{
		"not a record":       func(b []byte) []byte { return b[:at+3] },
		"in version 7":       func(b []byte) []byte { b[at]++; return b },
		"from other sources": func(b []byte) []byte { b[at+4]++; return b },
		"associations:":      func(b []byte) []byte { return b[:len(b)-1] },
	} {
		if err := new(Moved).UnmarshalBinary(change(bytes.Clone(record))); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v, want %q", err, want)
		}
	}
}
