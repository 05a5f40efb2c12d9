package control

import (
	"crypto/rand"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/nvmeof-go/nvmeof/nvmeof"
	"github.com/nvmeof-go/nvmeof/nvmeof/auth"
	"github.com/nvmeof-go/nvmeof/nvmeof/host"
)

const keyedHosts = `version: 1
listeners: [{id: 1, address: "ADDR:4420"}]
subsystems:
  - nqn: a
    state: DIR/state
    allow-any-host: true
    hosts:
      - {nqn: h1, key-file: DIR/key}
      - {nqn: h2}
      - {nqn: h3, key-file: DIR/key3, controller-key-file: DIR/key3.ctrl}
    namespaces: [{nsid: 1, memory: {size: 1MiB}}]
  - nqn: b
    hosts: [{nqn: h1}]
    namespaces: [{nsid: 1, memory: {size: 1MiB}}]
`

func (r *rig) newKey(names ...string) (k auth.Key) {
	r.t.Helper()
	for _, name := range names {
		var err error
		if k, err = auth.GenerateKey(auth.HashSHA256, rand.Reader); err != nil {
			r.t.Fatal(err)
		}
		r.write(name, []byte(k.Text()+"\n"))
	}
	return k
}

// wantKeyless checks which hosts wait for keys, and why.
func (r *rig) wantKeyless(want map[nvmeof.NQN]string) {
	r.t.Helper()
	waiting := r.Status().Waiting
	if len(waiting) != len(want) {
		r.t.Errorf("waiting are %+v, want %v", waiting, want)
	}
	for _, w := range waiting {
		if w.Subsystem != "a" || want[w.Host] == "" || !strings.Contains(w.Why, want[w.Host]) {
			r.t.Errorf("%s waits: %q, want %q", w.Host, w.Why, want[w.Host])
		}
	}
}

// wantRefused tries to connect as a host, which must be refused with a status for a retry.
func (h *returner) wantRefused(nqn nvmeof.NQN) {
	h.t.Helper()
	h.options.HostNQN = nqn
	con, err := h.connect(waitForHost)
	if err == nil {
		h.t.Errorf("%s is let in without its key", nqn)
		_ = con.Disconnect(h.t.Context())
	}
	var status *host.StatusError
	if !errors.As(err, &status) {
		h.t.Errorf("%s: %v", nqn, err)
	}
}

// wantIn connects as a host.
func (h *returner) wantIn(subsystem, nqn nvmeof.NQN) {
	h.t.Helper()
	h.options.NQN, h.options.HostNQN = subsystem, nqn
	if err := h.until(waitForHost).Disconnect(h.t.Context()); err != nil {
		h.t.Error(err)
	}
}

// TestStartWithoutKey: a host whose key is missing or invalid waits for it. It is not allowed without the key, even
// if any host is; others are served. When the file exists, the host is allowed.
func TestStartWithoutKey(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	r.newKey("key3")
	r.write("key3.ctrl", []byte("rubbish"))
	doc := r.doc(keyedHosts)
	for _, o := range []Options{{}, {DryRun: true}} {
		if _, err := r.Apply(doc, o); !errors.Is(err, fs.ErrNotExist) {
			t.Errorf("%+v: %v, want that the key is not there", o, err)
		}
	}
	if _, err := r.Apply(doc, Options{Wait: true}); err != nil {
		t.Fatal(err)
	}
	r.wantKeyless(map[nvmeof.NQN]string{"h1": "open " + r.dir + "/key: no such file", "h3": "controller key for host h3: " + r.dir + "/key3.ctrl"})
	if n := r.logs.FilterMessage("host cannot connect until its key can be read").Len(); n != 2 {
		t.Errorf("%d lines in the log", n)
	}
	h := newReturner(r)
	h.wantIn("b", "h1")
	h.wantIn("a", "h2")
	h.wantIn("a", "h9")
	h.wantRefused("h1")
	h.wantRefused("h3")
	if string(r.Document().YAML()) != string(doc.YAML()) {
		t.Error("the document is another")
	}
	h.options.DHCHAPSecret = r.newKey("key")
	r.await("its key is there", func() bool { return len(r.Status().Waiting) == 1 })
	h.wantIn("a", "h1")
	h.options.DHCHAPSecret = auth.Key{}
	h.options.HostNQN = "h1"
	if con, err := h.host.Connect(t.Context(), h.options); err == nil {
		t.Error("it is let in without its key")
		_ = con.Disconnect(t.Context())
	}
	// A host that is removed no longer waits, and is added again with the present file.
	without := r.doc(strings.Replace(keyedHosts, "      - {nqn: h3, key-file: DIR/key3, controller-key-file: DIR/key3.ctrl}\n", "", 1))
	r.apply(without)
	r.wantKeyless(nil)
}

// TestRereadWithoutKey: SIGHUP reads the keys that are readable. Hosts with other keys keep the old ones, which are
// read again later; a host that is refused for now stays so.
func TestRereadWithoutKey(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	before := r.newKey("key")
	if _, err := r.Apply(r.doc(keyedHosts), Options{Wait: true}); err != nil {
		t.Fatal(err)
	}
	r.wantKeyless(map[nvmeof.NQN]string{"h3": "no such file"})
	if err := os.Remove(filepath.Join(r.dir, "key")); err != nil {
		t.Fatal(err)
	}
	three := r.newKey("key3", "key3.ctrl", "key3") // it is waited for 1 s
	if n, err := r.RereadKeys(); n != 1 || err == nil || !strings.Contains(err.Error(), "keys of 1 hosts were read; these could not be read, and their previous keys are kept: key of host h1: open") {
		t.Errorf("%d, %v", n, err)
	}
	r.wantKeyless(map[nvmeof.NQN]string{"h1": "the previous key is kept"})
	h, third := newReturner(r), newReturner(r) // a host identifier belongs to one host
	third.options.DHCHAPSecret = three
	third.wantIn("a", "h3")
	h.options.DHCHAPSecret = before
	h.wantIn("a", "h1")
	r.write("key", []byte("rubbish"))
	if n, err := r.RereadKeys(); n != 1 || err == nil {
		t.Errorf("%d, %v", n, err)
	}
	r.wantKeyless(map[nvmeof.NQN]string{"h1": r.dir + "/key: "})
	h.options.DHCHAPSecret = r.newKey("key")
	if n, err := r.RereadKeys(); n != 2 || err != nil {
		t.Errorf("%d, %v", n, err)
	}
	r.wantKeyless(nil)
	h.wantIn("a", "h1")
}

// TestUndoneWithoutKey: if a change is undone after a key has disappeared, the error says so, and the host is not
// allowed without it.
func TestUndoneWithoutKey(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	r.newKey("key", "key3", "key3.ctrl")
	base := r.doc(keyedHosts)
	r.apply(base)
	want := r.doc(strings.Replace(keyedHosts, "{nqn: h1, key-file: DIR/key}", "{nqn: h1}", 1) + "  - nqn: c\n    state: DIR/no/state\n")
	if err := os.Remove(filepath.Join(r.dir, "key")); err != nil {
		t.Fatal(err)
	}
	want.Listeners[0].Address = base.Listeners[0].Address
	_, err := r.Apply(want, Options{})
	if err == nil {
		t.Fatal("there is no such folder")
	}
	r.wantKeyless(nil) // the subsystem fails before the host
	want.Subsystems = want.Subsystems[:2]
	want.Listeners = append(want.Listeners, r.doc("version: 1\nlisteners: [{id: 9, address: 192.0.2.7}]\n").Listeners...)
	if _, err = r.Apply(want, Options{}); err == nil || !strings.Contains(err.Error(), "not all earlier steps could be undone: host h1 of a waits: key of host h1") {
		t.Errorf("%v", err)
	}
	r.wantKeyless(map[nvmeof.NQN]string{"h1": "no such file"})
	newReturner(r).wantRefused("h1")
}
