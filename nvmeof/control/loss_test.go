package control

import (
	"errors"
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/nvmeof-go/nvmeof/nvmeof/config"
)

// TestLoss: a change that destroys data is not made unless it is forced, in a dry run neither, and the error says
// so.
func TestLoss(t *testing.T) {
	r := newRig(t)
	r.apply(r.doc(first))
	for name, edit := range map[string][]string{
		"size of memory":     {"memory:\n          size: 1MiB\n", "memory:\n          size: 2MiB\n"},
		"its block size":     {"- nsid: 2\n", "- nsid: 2\n        block-size: 4096\n"},
		"a file instead":     {"memory:\n          size: 1MiB\n", "file:\n          path: DIR/other\n          size: 1MiB\n"},
		"its number":         {"- nsid: 2\n", "- nsid: 3\n"},
		"the subsystem's":    {"- nqn: a\n", "- nqn: b\n"},
		"with what is there": {first[strings.Index(first, "subsystems:"):strings.Index(first, "referrals:")], ""},
	} {
		want := r.doc(strings.NewReplacer(edit...).Replace(first))
		for _, dry := range []bool{true, false} {
			out, err := r.Apply(want, Options{DryRun: dry})
			if dry != (out != nil) || dry && losses(out.Changes) == nil {
				t.Errorf("%s, dry %v: the plan is %+v", name, dry, out)
			}
			var loss *LossError
			if !errors.As(err, &loss) || !strings.Contains(err.Error(), "its data is lost") || !strings.Contains(err.Error(), "--force") {
				t.Errorf("%s, dry %v: %v", name, dry, err)
			}
			r.wantState(r.doc(first))
		}
		for _, dry := range []bool{true, false} {
			out, err := r.Apply(want, Options{DryRun: dry, Force: true})
			if err != nil {
				t.Fatalf("%s, dry %v: %v", name, dry, err)
			}
			said := 0
			for _, s := range Steps(out.Changes) {
				if s.Loses && strings.Contains(s.Text, "its data is lost") {
					said++
				}
			}
			if said != 1 {
				t.Errorf("%s: %d steps say that data is lost", name, said)
			}
		}
		r.apply(r.doc(first))
	}
	// Another identity of the same memory, and another file, lose nothing.
	for name, edit := range map[string][]string{
		"identity": {"- nsid: 2\n", "- nsid: 2\n        uuid: 11111111-2222-3333-4444-555555555555\n"},
		"file":     {"/a1", "/a2"},
	} {
		if _, err := r.Apply(r.doc(strings.NewReplacer(edit...).Replace(first)), Options{}); err != nil {
			t.Errorf("%s: %v", name, err)
		}
		r.apply(r.doc(first))
	}
}

// TestLossTakenBack: if a forced replacement of memory fails, the memory has its data and its identity.
func TestLossTakenBack(t *testing.T) {
	for name, edit := range map[string][]string{
		"its size": {"memory:\n          size: 1MiB\n", "memory:\n          size: 2MiB\n"}, "a file": {"memory:\n          size: 1MiB\n", "file:\n          path: DIR/other\n          size: 1MiB\n"},
		"its number": {"- nsid: 2\n", "- nsid: 3\n"}, "another too": {"- nsid: 2\n", "- nsid: 5\n        memory:\n          size: 1MiB\n      - nsid: 2\n        block-size: 4096\n"},
	} {
		r := newRig(t)
		r.apply(r.doc(first))
		s, _ := r.subsystem("a")
		n, _ := namespace(s, 2)
		key := keyOf("a", r.doc(first).Subsystems[0].Namespaces[1])
		id, store := n.UUID(), r.stores.held[key].store
		want := r.doc(strings.NewReplacer(edit...).Replace(first))
		want.Listeners = append(want.Listeners, &config.Listener{ID: 99, Address: config.Address{AddrPort: netip.MustParseAddrPort("192.0.2.7:4420")}})
		_, err := r.Apply(want, Options{Force: true})
		if err == nil || !strings.HasSuffix(err.Error(), "everything is as it was before") {
			t.Fatalf("%s: %v", name, err)
		}
		r.wantState(r.doc(first))
		if n, _ = namespace(s, 2); n.UUID() != id || r.stores.held[key].store != store || len(r.stores.aside) != 0 {
			t.Errorf("%s: it is %v, with %p; it was %v, with %p", name, n.UUID(), r.stores.held[key].store, id, store)
		}
		if store.Info().Size != 1<<20 {
			t.Errorf("%s: it has %d bytes", name, store.Info().Size)
		}
	}
}

// TestDryRunRefuses: a dry run returns the errors of the change.
func TestDryRunRefuses(t *testing.T) {
	r := newRig(t)
	r.apply(r.doc(first))
	write := func(name string, size int64) {
		t.Helper()
		if err := os.WriteFile(filepath.Join(r.dir, name), make([]byte, size), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	write("tiny", 100)
	write("bad", 100)
	other := newRig(t)
	other.dir = r.dir
	other.apply(other.doc(strings.Replace(first, "/a1", "/taken", 1)))
	for name, edit := range map[string][]string{
		"a file that is missing":     {"/a1\n          size: 1MiB", "/none"},
		"one of less than a block":   {"/a1\n          size: 1MiB", "/tiny"},
		"one that another has":       {"/a1", "/taken"},
		"one in a missing folder":    {"/a1", "/no/a1"},
		"one that would be cut":      {"/a1\n          size: 1MiB", "/a1\n          size: 512KiB"},
		"reservations that are none": {"- nsid: 2\n", "- nsid: 3\n        reservations: DIR/bad\n"},
		"a key that is missing":      {"- nqn: h1\n", "- nqn: h1\n        key-file: DIR/none.key\n"},
	} {
		want := r.doc(strings.NewReplacer(edit...).Replace(first))
		_, dry := r.Apply(want, Options{DryRun: true, Force: true})
		_, wet := r.Apply(want, Options{Force: true})
		if dry == nil || wet == nil {
			t.Errorf("%s: dry %v, else %v", name, dry, wet)
		}
		r.wantState(r.doc(first))
	}
}
