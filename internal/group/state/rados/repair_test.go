package rados

import (
	"testing"

	"github.com/nvmeof-go/nvmeof/internal/group/state"
)

// TestByHand: a value that was removed from the object or put there with Ceph's tool can be changed again, although its
// revision is under another key.
func TestByHand(t *testing.T) {
	for name, change := range map[string]func(o *fakeObject){
		"the value is removed":    func(o *fakeObject) { delete(o.keys, valueKey("a")) },
		"the revision is removed": func(o *fakeObject) { delete(o.keys, revisionKey("a")) },
		"a value is put":          func(o *fakeObject) { o.keys[valueKey("a")] = []byte("a value without a revision") },
		"a short value is put":    func(o *fakeObject) { o.keys[valueKey("a")] = []byte("x") },
		"an empty value is put":   func(o *fakeObject) { o.keys[valueKey("a")] = nil },
		"another has a short one": func(o *fakeObject) { o.keys[valueKey("ab")] = make([]byte, 7) },
		"another key has a value": func(o *fakeObject) { o.keys[valueKey("ab")] = append(bytesOf(1), "value"...) },
	} {
		t.Run(name, func(t *testing.T) {
			o := newFake()
			s := fakeStore(t, o)
			done(t, s, put("a", "before"))
			change(o)
			all, err := s.Get(t.Context(), "a")
			if err != nil {
				t.Fatal(err)
			}
			known := map[string]state.Revision{"a": 0, "ab": 0}
			for _, e := range all.Entries {
				if known[e.Key] = e.Revision; e.Revision == 0 {
					t.Errorf("%s is there, and has the revision of a key that is not", e.Key)
				}
			}
			for _, key := range []string{"a", "ab"} {
				wrong := put(key, "wrong")
				wrong.If = []state.Compare{{Key: key, Revision: known[key] + 7}}
				if r, err := s.Txn(t.Context(), wrong); r.Done || err != nil {
					t.Errorf("%s: a comparison holds that does not: %v, %v", key, r, err)
				}
				txn := put(key, "after")
				txn.If = []state.Compare{{Key: key, Revision: known[key]}}
				r, err := s.Txn(t.Context(), txn)
				if !r.Done || err != nil {
					t.Fatalf("%s, of which revision %d is read, is not changed: %v, %v", key, known[key], r, err)
				}
				if e, err := s.Get(t.Context(), key); err != nil || len(e.Entries) == 0 || e.Entries[0].Revision != r.Revision || string(e.Entries[0].Value) != "after" {
					t.Errorf("%s: %v, %v", key, e, err)
				}
			}
		})
	}
}
