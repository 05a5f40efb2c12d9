package sealed

import (
	"bytes"
	"encoding/json"
	"testing"
)

// FuzzOpen: Open returns what was sealed, and fails if a byte was changed.
func FuzzOpen(f *testing.F) {
	b, err := Seal(1, []byte(`{"a":[1,2,"x"]}`))
	if err != nil {
		f.Fatal(err)
	}
	f.Add(b, uint16(20), byte(1))
	f.Add([]byte(`{"version":1,"crc32c":"00000000"}`), uint16(0), byte(0))
	f.Fuzz(func(t *testing.T, b []byte, at uint16, flip byte) {
		body, err := Open(1, b)
		if err != nil || len(body) == 0 {
			return
		}
		if !json.Valid(body) {
			t.Fatalf("the body %q is no JSON", body)
		}
		again, err := Seal(1, body)
		if err != nil {
			t.Fatal(err)
		}
		var compact bytes.Buffer
		if err := json.Compact(&compact, body); err != nil {
			t.Fatal(err)
		}
		if !bytes.Equal(body, compact.Bytes()) {
			return // sealed by another program, with spaces, which Seal does not keep
		}
		if got, err := Open(1, again); err != nil || !bytes.Equal(got, body) {
			t.Fatalf("%q became %q (%v)", body, got, err)
		}
		changed := bytes.Clone(again)
		changed[int(at)%len(changed)] ^= flip
		if got, err := Open(1, changed); err == nil && !bytes.Equal(got, body) {
			t.Fatalf("%q opens as %q", changed, got)
		}
	})
}
