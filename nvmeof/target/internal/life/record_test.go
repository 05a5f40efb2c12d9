package life

import (
	"testing"
	"time"

	"github.com/google/uuid"

	"github.com/nvmeof-go/nvmeof/capsule"
)

// TestProtectedNamespaces: protection that hosts have set is found again by UUID, whatever the NSID is and has
// been used for meanwhile, even in a record that was saved; and only the last state counts.
func TestProtectedNamespaces(t *testing.T) {
	one, two, three := uuid.UUID{1}, uuid.UUID{2}, uuid.UUID{3}
	r := Record{}.Begin(time.Unix(1, 0), "", "", 1)
	r.Note(1, Namespace{UUID: one, Protection: capsule.WriteProtected})
	r.Note(2, Namespace{UUID: two})
	r.Note(1, Namespace{UUID: three}) // it replaces the first
	if _, found := r.Take(2, uuid.UUID{9}); found {
		t.Error("one that was never there is found")
	}
	b, err := r.Encode()
	if err == nil {
		r, err = Decode(b)
	}
	if err != nil || len(r.Departed) != 1 {
		t.Fatalf("%+v, %v", r, err)
	}
	if n, found := r.Take(3, one); !found || n.Protection != capsule.WriteProtected || len(r.Departed) > 0 {
		t.Errorf("it is %+v, %v, and %d are left", n, found, len(r.Departed))
	}
	r.Note(3, Namespace{UUID: one}) // a host ends the protection
	if n, found := r.Take(4, one); !found || n.Protection != capsule.WriteProtectNone || len(r.Namespaces) != 3 {
		t.Errorf("it is %+v, %v, of %d", n, found, len(r.Namespaces))
	}
	for i := range maxDeparted + 9 {
		r.Note(5, Namespace{UUID: uuid.UUID{4, byte(i), byte(i >> 8)}, Protection: capsule.WriteProtected})
	}
	if len(r.Departed) != maxDeparted {
		t.Errorf("%d are kept", len(r.Departed))
	}
}
