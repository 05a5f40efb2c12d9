package control

import (
	"cmp"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"go.uber.org/zap"
	"go.uber.org/zap/zaptest/observer"

	"github.com/nvmeof-go/nvmeof/backend"
	"github.com/nvmeof-go/nvmeof/backend/memory"
	"github.com/nvmeof-go/nvmeof/nvmeof"
	"github.com/nvmeof-go/nvmeof/nvmeof/auth"
	"github.com/nvmeof-go/nvmeof/nvmeof/config"
	"github.com/nvmeof-go/nvmeof/nvmeof/target"
	"github.com/nvmeof-go/nvmeof/rdmatransport"
	"github.com/nvmeof-go/nvmeof/rdmatransport/softroce"
)

// A rig is a Manager of a softroce target on a loopback address of its own.
type rig struct {
	*Manager
	t      *testing.T
	addr   netip.Addr
	second netip.Addr // another address
	dir    string
	logs   *observer.ObservedLogs

	exported func()       // called when another process is about to continue
	taken    func() error // unlocks what was locked
}

// lastAddr counts addresses, since a process can only have one endpoint on each.
var lastAddr atomic.Uint32

func newRig(t *testing.T, change ...func(*Config)) *rig {
	t.Helper()
	core, logs := observer.New(zap.InfoLevel)
	r := &rig{t: t, dir: t.TempDir(), logs: logs, exported: func() {}}
	n := lastAddr.Add(1)
	r.addr = netip.AddrFrom4([4]byte{127, 84, byte(os.Getpid() % 250), byte(n)})
	r.second = netip.AddrFrom4([4]byte{127, 85, byte(os.Getpid() % 250), byte(n)})
	tgt, err := target.New(target.Config{Log: zap.New(core), Arena: 4 << 20, Revalidate: 50 * time.Millisecond})
	if err != nil {
		t.Fatal(err)
	}
	cfg := Config{Target: tgt, Settings: &config.Document{Version: 1}, Log: zap.New(core), Device: func(a netip.Addr, _ config.Transport) (rdmatransport.Device, error) {
		return softroce.Open(softroce.Config{Addr: a})
	}}
	for _, c := range change {
		c(&cfg)
	}
	r.Manager = New(cfg)
	r.firstWait, r.stillFor = 200*time.Millisecond, 100*time.Millisecond // retry sooner
	t.Cleanup(func() {
		if err := r.Close(); err != nil {
			t.Error(err)
		}
	})
	return r
}

// doc parses a document in which ADDR and DIR stand for those of the rig.
func (r *rig) doc(text string) *config.Document {
	r.t.Helper()
	text = strings.NewReplacer("ADDR2", r.second.String(), "ADDR", r.addr.String(), "DIR", r.dir).Replace(text)
	doc, _, err := config.Parse("test", []byte(text))
	if err != nil {
		r.t.Fatalf("%v\n%s", err, text)
	}
	return doc
}

const first = `version: 1
listeners:
  - id: 1
    address: ADDR:4420
    ana-groups:
      - group: 2
        state: non-optimized
subsystems:
  - nqn: a
    hosts:
      - nqn: h1
      - nqn: h2
        access: read
    namespaces:
      - nsid: 1
        file:
          path: DIR/a1
          size: 1MiB
      - nsid: 2
        memory:
          size: 1MiB
        ana-group: 2
referrals:
  - address: 192.0.2.9:4420
`

func (r *rig) apply(doc *config.Document) {
	r.t.Helper()
	if _, err := r.Apply(doc, Options{Force: true}); err != nil {
		r.t.Fatal(err)
	}
	r.wantState(doc)
}

// wantState compares the document with the state of the target.
func (r *rig) wantState(doc *config.Document) {
	r.t.Helper()
	if got := r.Document(); string(got.YAML()) != string(doc.YAML()) {
		r.t.Errorf("document\n%s\nwant\n%s", got.YAML(), doc.YAML())
	}
	if got, want := r.observe(), expected(doc); got != want {
		r.t.Errorf("the target has\n%s\nwant\n%s", got, want)
	}
}

// observe describes the state of the target.
func (r *rig) observe() string {
	var b strings.Builder
	for _, l := range r.target.Listeners() {
		fmt.Fprintf(&b, "listener %d %v: group 2 %v\n", l.ID(), l.Addr(), l.ANAState(2))
	}
	for _, s := range r.target.Subsystems() {
		fmt.Fprintf(&b, "subsystem %s any %v ports %v\n", s.NQN(), s.AnyHost(), s.Ports())
		for _, h := range s.Hosts() {
			fmt.Fprintf(&b, " host %s %v %d keyed %v\n", h.NQN, h.Access, len(h.Namespaces), !h.DHCHAPKey.IsZero())
		}
		for _, n := range s.Namespaces() {
			fmt.Fprintf(&b, " namespace %d group %d read-only %v\n", n.ID(), n.Group(), n.ReadOnly())
		}
	}
	for _, x := range r.target.Referrals() {
		fmt.Fprintf(&b, "referral %v\n", x.Addr)
	}
	return b.String()
}

// expected returns the same description from a document.
func expected(doc *config.Document) string {
	doc = doc.Clone()
	var b strings.Builder
	for _, l := range doc.Listeners {
		state := anaStates["optimized"]
		for _, g := range l.ANAGroups {
			if g.Group == 2 {
				state = anaStates[g.State]
			}
		}
		fmt.Fprintf(&b, "listener %d %v: group 2 %v\n", l.ID, l.Address, state)
	}
	for _, s := range doc.Subsystems {
		ports := make([]int, 0)
		ports = append(ports, s.Listeners...)
		fmt.Fprintf(&b, "subsystem %s any %v ports %v\n", s.NQN, s.AllowAnyHost, ports)
		slices.SortFunc(s.Hosts, func(a, b *config.Host) int { return cmp.Compare(a.NQN, b.NQN) })
		slices.SortFunc(s.Namespaces, func(a, b *config.Namespace) int { return cmp.Compare(a.NSID, b.NSID) })
		for _, h := range s.Hosts {
			fmt.Fprintf(&b, " host %s %v %d keyed %v\n", h.NQN, accesses[h.Access], len(h.Namespaces), h.KeyFile != "")
		}
		for _, n := range s.Namespaces {
			fmt.Fprintf(&b, " namespace %d group %d read-only %v\n", n.NSID, max(n.ANAGroup, 1), n.ReadOnly)
		}
	}
	for _, x := range doc.Referrals {
		fmt.Fprintf(&b, "referral %v\n", x.Address)
	}
	return b.String()
}

// edits are changes of the first document, as pairs of old and new text.
var edits = map[string][]string{
	"nothing":         nil,
	"listener":        {"subsystems:\n", "  - id: 2\n    address: ADDR:4421\nsubsystems:\n"},
	"another address": {"subsystems:\n", "  - id: 2\n    address: ADDR2:4420\n    ana-groups:\n      - group: 2\n        state: inaccessible\nsubsystems:\n"},
	"moved address":   {"address: ADDR:4420\n", "address: ADDR2:4420\n"},
	"port":            {"ADDR:4420", "ADDR:4430"},
	"ANA":             {"state: non-optimized", "state: inaccessible"},
	"hosts":           {"nqn: h1", "nqn: h3", "access: read", "access: none"},
	"any host":        {"  - nqn: a\n", "  - nqn: a\n    allow-any-host: true\n    listeners: [1]\n"},
	"serial":          {"  - nqn: a\n", "  - nqn: a\n    serial: s\n"},
	"renamed":         {"  - nqn: a\n", "  - nqn: b\n"},
	"exposed":         {"- nqn: a\n", "- nqn: b\n    allow-any-host: true\n    listeners: [1]\n"},
	"read-only":       {"- nsid: 2\n", "- nsid: 2\n        read-only: true\n"},
	"another file":    {"/a1", "/a2"},
	"block size":      {"size: 1MiB\n      - nsid: 2", "size: 1MiB\n        block-size: 4096\n      - nsid: 2"},
	"namespace moved": {"nsid: 1\n", "nsid: 7\n"},
	"referral":        {"192.0.2.9", "192.0.2.8"},
	"no subsystem":    {first[strings.Index(first, "subsystems:"):strings.Index(first, "referrals:")], ""},
}

// TestApply applies each variant, and the first document again.
func TestApply(t *testing.T) {
	r := newRig(t)
	base := r.doc(first)
	r.apply(base)
	for name, pairs := range edits {
		want := r.doc(strings.NewReplacer(pairs...).Replace(first))
		dry, err := r.Apply(want, Options{DryRun: true, Force: true})
		if err != nil {
			// A dry run creates no file, and finds that one is missing.
			t.Fatalf("%s: %v", name, err)
		}
		r.wantState(base)
		out, err := r.Apply(want, Options{Force: true})
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		if len(out.Changes) != len(dry.Changes) || (len(out.Changes) == 0) != (len(pairs) == 0) {
			t.Errorf("%s: %d changes, %d in the dry run", name, len(out.Changes), len(dry.Changes))
		}
		r.wantState(want)
		r.apply(base)
	}
}

// TestDoubtfulName: a change that adds a name which is not an NQN returns a warning.
func TestDoubtfulName(t *testing.T) {
	r := newRig(t)
	doc := r.doc(first)
	r.apply(doc)
	doc.Subsystems[0].Hosts = append(doc.Subsystems[0].Hosts, &config.Host{NQN: "odd"}, &config.Host{NQN: "nqn.2026-11.org.example:host"})
	out, err := r.Apply(doc, Options{})
	if err != nil || len(out.Warnings) != 1 || !strings.Contains(out.Warnings[0].Text, "odd: NQN is not of the form") {
		t.Fatalf("warnings %v, %v", out, err)
	}
	doc.Subsystems[0].Hosts[1].Access = "read"
	if out, err = r.Apply(doc, Options{}); err != nil || len(out.Warnings) > 0 {
		t.Errorf("warnings of a later change %v, %v", out, err)
	}
}

// TestRollback: whichever step fails, everything is as before. In the quick form, every second step fails of one
// change, and the others of the next.
func TestRollback(t *testing.T) {
	t.Parallel()
	// Faults that only the target finds, in one of the last steps.
	refused := map[config.Kind]func(*config.Document){
		config.KindReferral: func(d *config.Document) {
			d.Referrals = append(d.Referrals, &config.Referral{NQN: nvmeof.NQN(strings.Repeat("x", 300)),
				Address: config.Address{AddrPort: netip.MustParseAddrPort("192.0.2.7:4420")}})
		},
		config.KindListener: func(d *config.Document) {
			d.Listeners = append(d.Listeners, &config.Listener{ID: 99, Address: config.Address{AddrPort: netip.MustParseAddrPort("192.0.2.7:4420")}})
		},
	}
	kinds := []config.Kind{config.KindReferral, config.KindListener}
	for i, name := range slices.Sorted(maps.Keys(edits)) {
		for j, kind := range kinds {
			if *long || i%len(kinds) == j {
				rollback(t, name, edits[name], kind, refused[kind])
			}
		}
	}
}

func rollback(t *testing.T, name string, pairs []string, kind config.Kind, spoil func(*config.Document)) {
	t.Run(fmt.Sprintf("%s,%s", name, kind), func(t *testing.T) {
		r := newRig(t)
		base := r.doc(first)
		r.apply(base)
		want := r.doc(strings.NewReplacer(pairs...).Replace(first))
		spoil(want)
		changes := config.Diff(base, want)
		err := r.performLocked(changes)
		var step *StepError
		if !errors.As(err, &step) || step.Undo != nil || step.Step.Kind != kind ||
			!strings.HasSuffix(err.Error(), "everything is as it was before") {
			t.Fatalf("%v", err)
		}
		r.wantState(base)
		if _, err := os.Stat(r.dir + "/a2"); err == nil {
			t.Error("a file was created for a change that failed, and is there")
		}
		if _, err := os.Stat(r.dir + "/a1"); err != nil {
			t.Error(err)
		}
	})
}

// TestRollbackThatWaits: what cannot be opened again waits, and the error says so.
func TestRollbackThatWaits(t *testing.T) {
	t.Parallel()
	opened := 0
	r := newRig(t, func(c *Config) {
		open := opens(func(*config.Namespace) {})
		c.Open = func(n *config.Namespace, pool *memory.Pool) (backend.Store, []string, error) {
			if n.NSID == 1 {
				if opened++; opened == 3 {
					return nil, nil, errors.New("the disk is broken")
				}
			}
			return open(n, pool)
		}
	})
	base := r.doc(first)
	r.apply(base)
	want := r.doc(strings.Replace(first, "size: 1MiB\n      - nsid: 2", "size: 1MiB\n          buffered: true\n      - nsid: 2", 1))
	want.Listeners = append(want.Listeners, &config.Listener{ID: 99, Address: config.Address{AddrPort: netip.MustParseAddrPort("192.0.2.7:4420")}})
	err := r.performLocked(config.Diff(base, want))
	if err == nil || !strings.Contains(err.Error(), "not all earlier steps could be undone: namespace 1 of a waits: the disk is broken") {
		t.Errorf("%v", err)
	}
	r.await("it is there again", func() bool { return len(r.Status().Waiting) == 0 })
	r.wantState(base)
}

func (r *rig) performLocked(changes []config.Change) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.perform(changes, Options{})
}

// TestNothingHalf: errors that can be found before anything is removed are found then.
func TestNothingHalf(t *testing.T) {
	r := newRig(t)
	base := r.doc(first)
	r.apply(base)
	dir := filepath.Join(r.dir, "folder")
	if err := os.Mkdir(dir, 0o700); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct{ old, new, want string }{
		{"/a1\n          size: 1MiB", "/none", "none: no such file or directory: give a size to create it, as size: 10GiB in a configuration, or --size 10GiB; everything is as it was before"},
		{"/a1\n          size: 1MiB", "/folder", "is a directory, not a regular file"},
		{"size: 1MiB\n      - nsid: 2", "size: 4096\n      - nsid: 2", "and a store is never shortened"},
		{"nqn: h1", "nqn: h1\n        key-file: DIR/key", "key of host h1: open " + r.dir + "/key: no such file or directory"},
		{"nqn: h1", "nqn: h1\n        key-file: ${NVMEOF_NO_SUCH}/key", "the environment variable NVMEOF_NO_SUCH"},
		{"version: 1\n", "version: 1\nlimits: {queues: 4}\n", "change target: limits.queues 128 -> 4: cannot be changed while the target runs; nothing was changed"},
	} {
		text := strings.Replace(first, c.old, c.new, 1)
		if _, err := r.Apply(r.doc(text), Options{}); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%v, want %s", err, c.want)
		}
		r.wantState(base)
	}
}

// TestGrow: hosts see the new size of a file that was extended.
func TestGrow(t *testing.T) {
	r := newRig(t)
	r.apply(r.doc(first))
	r.apply(r.doc(strings.Replace(first, "size: 1MiB", "size: 2MiB", 1)))
	s, _ := r.subsystem("a")
	if n, _ := namespace(s, 1); n.Info().Size != 2<<20 {
		t.Errorf("%d bytes", n.Info().Size)
	}
}

// TestShared: one file in two subsystems is opened once.
func TestShared(t *testing.T) {
	opened := 0
	r := newRig(t, func(c *Config) {
		c.Open = func(n *config.Namespace, pool *memory.Pool) (backend.Store, []string, error) {
			opened++
			return OpenStore(n, pool)
		}
	})
	const text = "version: 1\nlisteners: [{id: 1, address: \"ADDR\"}]\nsubsystems:\n"
	const one = "- nqn: %s\n  allow-any-host: true\n  namespaces: [{nsid: 1, shared: true, file: {path: DIR/f, size: 1MiB}}]\n"
	both := text + fmt.Sprintf(one, "a") + fmt.Sprintf(one, "b")
	r.apply(r.doc(both))
	r.apply(r.doc(text + fmt.Sprintf(one, "b")))
	r.apply(r.doc(both))
	if opened != 1 {
		t.Errorf("opened %d times", opened)
	}
	r.apply(r.doc(text + "[]"))
	r.apply(r.doc(both))
	if opened != 2 {
		t.Errorf("opened %d times", opened)
	}
}

// TestWaiting: a file that does not exist yet is waited for, and everything else is served.
func TestWaiting(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	doc := r.doc(strings.Replace(first, "/a1\n          size: 1MiB", "/late", 1))
	if _, err := r.Apply(doc, Options{}); !errors.Is(err, fs.ErrNotExist) {
		t.Fatalf("%v without Wait", err)
	}
	if _, err := r.Apply(doc, Options{Wait: true}); err != nil {
		t.Fatal(err)
	}
	s := r.Status()
	if len(s.Waiting) != 1 || s.Waiting[0].NSID != 1 || !strings.Contains(s.Waiting[0].Why, "no such file") || s.Namespaces != 2 {
		t.Errorf("status %+v", s)
	}
	if r.logs.FilterMessage("namespace waits for its store").Len() != 1 {
		t.Error("the log has no line about it")
	}
	r.wantSaved(doc)
	if err := os.WriteFile(r.dir+"/late", make([]byte, 1<<20), 0o600); err != nil {
		t.Fatal(err)
	}
	for end := time.Now().Add(10 * time.Second); len(r.Status().Waiting) > 0; time.Sleep(10 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatal("it is not found")
		}
	}
	r.wantState(doc)
	// A namespace that is removed while it waits.
	doc = r.doc(strings.Replace(first, "/a1\n          size: 1MiB", "/later", 1))
	if _, err := r.Apply(doc, Options{Wait: true}); err != nil {
		t.Fatal(err)
	}
	r.apply(r.doc(first))
	if w := r.Status().Waiting; len(w) != 0 {
		t.Errorf("still waiting: %v", w)
	}
}

// wantSaved checks that the document, and so what is saved, has the objects that are waited for.
func (r *rig) wantSaved(doc *config.Document) {
	r.t.Helper()
	if _, err := r.Save(""); err == nil || !strings.Contains(err.Error(), "not started with --config") {
		r.t.Errorf("%v without a file", err)
	}
	r.cfg.File = filepath.Join(r.dir, "target.yaml")
	if _, err := r.Save(""); err != nil {
		r.t.Fatal(err)
	}
	text, err := os.ReadFile(r.cfg.File)
	if err != nil || string(text) != string(doc.YAML()) {
		r.t.Errorf("%v, saved\n%s", err, text)
	}
	if info, _ := os.Stat(r.cfg.File); info.Mode().Perm() != 0o600 {
		r.t.Errorf("mode %v", info.Mode())
	}
}

// TestNVMetSettings: settings that are imported from the kernel's target reach the target, and reservations can be
// refused or not while hosts use it.
func TestNVMetSettings(t *testing.T) {
	r := newRig(t)
	doc := r.doc(strings.Replace(first, "  - nqn: a\n", "  - nqn: a\n    nvme-version: \"1.3\"\n", 1))
	r.apply(doc)
	refuses := func() bool { return r.target.Subsystems()[0].Namespaces()[0].RefuseReservations() }
	doc.Subsystems[0].Namespaces[0].RefuseReservations = true
	out, err := r.Apply(doc, Options{})
	if err != nil || len(out.Changes) != 1 || out.Changes[0].Op != config.Alter || !refuses() {
		t.Errorf("%+v, %v, refuses %v", out, err, refuses())
	}
	doc.Subsystems[0].Namespaces[0].RefuseReservations = false
	if r.apply(doc); refuses() {
		t.Error("reservations are refused yet")
	}
}

func TestKeys(t *testing.T) {
	r := newRig(t)
	key := filepath.Join(r.dir, "key")
	k, err := auth.GenerateKey(auth.HashSHA256, rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(os.WriteFile(key, []byte(k.Text()), 0o600), os.Chmod(key, 0o644)); err != nil {
		t.Fatal(err)
	}
	doc := r.doc(strings.Replace(first, "nqn: h1", "nqn: h1\n        key-file: DIR/key\n        hashes: [sha384]\n        dh-groups: [\"null\", ffdhe2048]", 1))
	r.apply(doc)
	if n, err := r.RereadKeys(); n != 1 || err != nil {
		t.Errorf("%d hosts, %v", n, err)
	}
	found := false
	for _, l := range r.logs.All() {
		found = found || strings.Contains(l.Message, "other users may read it")
	}
	if !found {
		t.Error("no warning of a key that others may read")
	}
	if err := os.WriteFile(key, []byte("nonsense"), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := r.RereadKeys(); err == nil || !strings.Contains(err.Error(), "no key was read again, and the previous keys are kept: key of host h1") {
		t.Errorf("%v", err)
	}
	r.wantState(doc)
}

func TestClosed(t *testing.T) {
	r := newRig(t)
	if err := r.Close(); err != nil {
		t.Fatal(err)
	}
	for what, call := range map[string]func() error{
		"Apply":           func() error { _, err := r.Apply(r.doc(first), Options{}); return err },
		"Edit":            func() error { _, err := r.Edit(func(*config.Document) error { return nil }, Options{}); return err },
		"Erase":           func() error { _, err := Erase(r.Manager, "a", 1, Options{}); return err },
		"Save":            func() error { _, err := r.Save(filepath.Join(r.dir, "f")); return err },
		"RereadKeys":      func() error { _, err := r.RereadKeys(); return err },
		"ReloadNamespace": func() error { return ReloadNamespace(r.Manager, "a", 1) },
		"Export":          func() error { _, err := Export(t.Context(), r.Manager); return err },
	} {
		if err := call(); !errors.Is(err, ErrClosed) {
			t.Errorf("%s of a closed Manager: %v, want %v", what, err, ErrClosed)
		}
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	backoff(ctx, firstWait, longWait, func() bool { t.Error("tried"); return true })
}

// TestExportsNothing: a namespace that was not checked, and exports nothing, does not cause a panic.
func TestExportsNothing(t *testing.T) {
	_, _, err := OpenStore(new(config.Namespace), nil)
	if _, also := ProbeStore(new(config.Namespace)); !errors.Is(err, errNoExport) || !errors.Is(also, errNoExport) {
		t.Errorf("opened with %v, probed with %v", err, also)
	}
}
