package nvmeof

import (
	"strings"
	"testing"

	"github.com/google/uuid"

	"github.com/nvmeof-go/nvmeof/capsule"
)

// FuzzAddress: an accepted address has a port, and is the same in each of its text forms.
func FuzzAddress(f *testing.F) {
	for _, s := range []string{"192.0.2.1", "192.0.2.1:4420", "2001:db8::1", "[2001:db8::1]:4420", "[fe80::1%eth0]:1", "::ffff:192.0.2.1", " 0.0.0.0 "} {
		f.Add(s, "4420")
	}
	f.Fuzz(func(t *testing.T, s, port string) {
		if a, err := ParseListen(s); err == nil {
			again, err := ParseListen(a.String())
			if err != nil || again != a || a.Port() == 0 || a.Addr().Is4In6() {
				t.Fatalf("%q is %v, which is %v (%v)", s, a, again, err)
			}
		}
		if a, err := ParseAddress(s, port); err == nil {
			again, err := ParseListen(a.String())
			if err != nil || again != a || a.Port() == 0 {
				t.Fatalf("%q and %q are %v, which is %v (%v)", s, port, a, again, err)
			}
		}
	})
}

// FuzzSize: an accepted size is positive, and survives a round trip.
func FuzzSize(f *testing.F) {
	for _, s := range []string{"4096", "4k", "1GiB", "10GB", "8388607TiB", "8388608TiB", "9223372036854775807", "0", "-1"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		n, err := ParseSize(s)
		if err != nil {
			return
		}
		if again, err := ParseSize(FormatSize(n)); err != nil || again != n || n <= 0 {
			t.Fatalf("%q is %d, %q is %d (%v)", s, n, FormatSize(n), again, err)
		}
	})
}

// FuzzHostIdentity: an accepted identity has both parts.
func FuzzHostIdentity(f *testing.F) {
	f.Add("nqn.2014-08.org.nvmexpress:uuid:8f7c3c1e-6f0b-4f5e-9a53-0f3c1d2e4b5a", "")
	f.Add("", "8f7c3c1e-6f0b-4f5e-9a53-0f3c1d2e4b5a")
	f.Add("nqn.2014-08.org.example:a", "{8f7c3c1e-6f0b-4f5e-9a53-0f3c1d2e4b5a}")
	f.Add("nqn.2014-08.org.nvmexpress:uuid:00000000-0000-0000-0000-000000000000", "")
	f.Fuzz(func(t *testing.T, nqn, id string) {
		h, err := ParseHostIdentity(nqn, id)
		if err != nil {
			return
		}
		if h.ID == (capsule.HostID{}) {
			t.Fatalf("%q and %q are the identifier zero", nqn, id)
		}
		again, err := ParseHostIdentity(string(h.NQN), uuid.UUID(h.ID).String())
		if err != nil || again != h {
			t.Fatalf("%q and %q are %v, which is %v (%v)", nqn, id, h, again, err)
		}
	})
}

// TestSizeMistakes: errors about sizes have examples.
func TestSizeMistakes(t *testing.T) {
	for s, want := range map[string]string{
		"10XB": "10GB", "": "10GB", "0GiB": "of more than nothing", "9000000TiB": "of at most 9223372036854775807 bytes",
		"99999999999999999999": "of at most",
	} {
		if _, err := ParseSize(s); err == nil || !strings.Contains(err.Error(), "write it as 4096, 4k, 512MiB or 10GB") || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v", s, err)
		}
	}
}
