package life

import (
	"reflect"
	"testing"
	"time"

	"github.com/nvmeof-go/nvmeof/nvmeof/target/internal/sealed"
)

// FuzzDecode: a record that decodes can be encoded, whatever its origin.
func FuzzDecode(f *testing.F) {
	for _, s := range []string{`{"running":true,"power-cycles":3,"unsafe-shutdowns":1,"errors":2,"on-seconds":100,"namespaces":[{"nsid":1,"uuid":"8f7c3c1e-6f0b-4f5e-9a53-0f3c1d2e4b5a","reads":1,"busy-seconds":7,"write-protected":true}]}`,
		`{"cycles":[{"number":3,"at":1700000000000,"firmware":"1.2.3"}]}`, `{"cycles":[{"number":3,"firmware":"123456789"}]}`,
		`{}`, `{"on-seconds":9223372036854775807}`, `{"on-seconds":-1}`, `{"namespaces":[{"nsid":0}]}`, `{"namespaces":[{"nsid":1,"busy-seconds":-5},{"nsid":1}]}`} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, body []byte) {
		if r, err := Decode(body); err == nil && body != nil {
			t.Fatalf("%q has no seal, and is %+v", body, r)
		}
		b, err := sealed.Seal(version, body)
		if err != nil {
			return // no JSON
		}
		r, err := Decode(b)
		if err != nil {
			return
		}
		for id, n := range r.Namespaces {
			if id == 0 || n.Counts.Busy < 0 {
				t.Fatalf("%q has namespace %d: %+v", body, id, n)
			}
		}
		if r.On < 0 {
			t.Fatalf("%q is %v old", body, r.On)
		}
		text, err := r.Encode()
		if err != nil {
			t.Fatal(err)
		}
		if again, err := Decode(text); err != nil || !reflect.DeepEqual(again, r) {
			t.Fatalf("%q is %+v, then %+v (%v)", body, r, again, err)
		}
	})
}

// TestCycles: a limited number is kept, in order.
func TestCycles(t *testing.T) {
	var r Record
	for i := range maxCycles + 2 {
		r = r.Begin(time.UnixMilli(int64(i)), "a long version", "", 1)
	}
	if n := len(r.Cycles); n != maxCycles || r.Cycles[0] != (Cycle{3, 2, "a long v"}) || r.Cycles[n-1].Number != r.PowerCycles {
		t.Errorf("%d: %+v", n, r.Cycles)
	}
}
