package control

import (
	"errors"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"slices"
	"strings"
	"testing"

	"github.com/nvmeof-go/nvmeof/nvmeof/config"
)

const usedText = `version: 1
listeners:
  - {id: 1, address: "ADDR:4420"}
  - {id: 2, address: "ADDR:4421"}
subsystems:
  - nqn: a
    hosts:
      - nqn: h1
        namespaces: [{nsid: 3, access: none}]
      - nqn: h2
    namespaces:
      - {nsid: 1, file: {path: DIR/one, size: 1MiB}}
      - {nsid: 2, file: {path: DIR/two, size: 1MiB}}
      - {nsid: 3, file: {path: DIR/three, size: 1MiB}}
  - nqn: b
    hosts: [{nqn: h1}]
    namespaces: [{nsid: 1, file: {path: DIR/b, size: 1MiB}}]
`

// TestApplyWhatWasCutShort: a document that was cut at the end of a line removes nothing that connected hosts use,
// unless it is forced. It removes what no host uses.
func TestApplyWhatWasCutShort(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	whole := r.doc(usedText)
	r.apply(whole)
	con := newReturner(r).until(waitForHost)
	defer con.Disconnect(t.Context())
	for cut, want := range map[string]string{
		"  - nqn: b\n":      "",
		"      - {nsid: 3,": "",
		"      - {nsid: 2,": "namespace 2 of a, of host h1; nothing was changed. Check that the document is complete; if this is intended, use --force",
		"    namespaces:\n": "namespace 1 of a, of host h1; namespace 2 of a, of host h1; nothing",
		"      - nqn: h2":   "namespace 1 of a, of host h1; namespace 2 of a, of host h1; nothing",
		"    hosts:\n":      "subsystem a, of host h1; nothing",
		"subsystems:\n":     "subsystem a, of host h1; nothing",
	} {
		text := usedText[:strings.Index(usedText, cut)]
		for _, o := range []Options{{DryRun: true}, {}} {
			_, err := r.Apply(r.doc(text), o)
			var used *InUseError
			if want == "" && err != nil || want != "" && (!errors.As(err, &used) || !strings.Contains(err.Error(), want)) {
				t.Errorf("cut at %q, %+v: %v", cut, o, err)
			}
		}
		r.apply(whole)
	}
	w := httptest.NewRecorder()
	body := string(r.doc(usedText[:strings.Index(usedText, "subsystems:\n")]).JSON())
	Handler(r.Manager).ServeHTTP(w, httptest.NewRequest("PUT", "/v1/config", strings.NewReader(body)))
	if w.Code != http.StatusConflict || !strings.Contains(w.Body.String(), `"code": "in-use"`) {
		t.Errorf("%d, %s", w.Code, w.Body)
	}
	// Objects that are named, or forced, are removed.
	if _, err := r.Edit(func(d *config.Document) error { return namespaces(d.Subsystems[0]).remove("2") }, Options{}); err != nil {
		t.Error(err)
	}
	if _, err := r.Apply(new(config.Document), Options{Force: true}); err == nil || errors.As(err, new(*InUseError)) {
		t.Errorf("a document without a version: %v", err)
	}
	if _, err := r.Apply(r.doc("version: 1\n"), Options{Force: true}); err != nil {
		t.Error(err)
	}
}

// TestUsesLost: a host that stays connected by another path, or since any host is allowed, loses nothing.
func TestUsesLost(t *testing.T) {
	r := &rig{t: t, dir: t.TempDir(), addr: netip.MustParseAddr("192.0.2.1")}
	have := r.doc(usedText)
	one, two, other := Controller{Subsystem: "a", Host: "h1", Listener: 1}, Controller{Subsystem: "a", Host: "h1", Listener: 2}, Controller{Subsystem: "a", Host: "h2", Listener: 2}
	discovery := Controller{Discovery: true, Host: "h1", Listener: 1}
	for name, c := range map[string]struct {
		connected []Controller
		edit      []string
		want      []string
	}{
		"one of two ways":    {[]Controller{one, two}, []string{"  - {id: 2, address: \"ADDR:4421\"}\n", ""}, nil},
		"the only way":       {[]Controller{two, discovery}, []string{"  - {id: 2, address: \"ADDR:4421\"}\n", ""}, []string{"subsystem a, of host h1"}},
		"not on it any more": {[]Controller{two}, []string{"  - nqn: a\n", "  - nqn: a\n    listeners: [1]\n"}, []string{"subsystem a, of host h1"}},
		"one of all hosts":   {[]Controller{other}, []string{"      - nqn: h2\n", "", "  - nqn: a\n", "  - nqn: a\n    allow-any-host: true\n"}, nil},
		"several hosts": {[]Controller{other, one, two}, []string{"      - {nsid: 3, file: {path: DIR/three, size: 1MiB}}\n", "", "      - {nsid: 1, file: {path: DIR/one, size: 1MiB}}\n", ""},
			[]string{"namespace 1 of a, of host h1", "namespace 1 of a, of host h2", "namespace 3 of a, of host h2"}},
		"that is leaving": {[]Controller{{Subsystem: "gone", Host: "h1"}}, nil, nil},
	} {
		want := r.doc(strings.NewReplacer(c.edit...).Replace(usedText))
		if got := usesLost(have, want, c.connected); !slices.Equal(got, c.want) {
			t.Errorf("%s: %q, want %q", name, got, c.want)
		}
	}
	// Neither does a host that has the name of a host with a key and has not authenticated.
	have.Subsystems[0].Hosts[1].KeyFile = "/key"
	for _, proved := range []bool{false, true} {
		other.Authenticated = proved
		if got := usesLost(have, new(config.Document), []Controller{other}); (len(got) > 0) != proved {
			t.Errorf("of a host with a key, which has proved who it is (%v): %q", proved, got)
		}
	}
}
