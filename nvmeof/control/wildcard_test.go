package control

import (
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/nvmeof-go/nvmeof/capsule"
	"github.com/nvmeof-go/nvmeof/nvmeof/config"
	"github.com/nvmeof-go/nvmeof/nvmeof/target"
	"github.com/nvmeof-go/nvmeof/rdmatransport"
)

// interfaces have addresses that appear and disappear.
type interfaces struct {
	mu    sync.Mutex
	addrs []netip.Addr
}

func (m *interfaces) has(addrs ...netip.Addr) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.addrs = addrs
}

func (m *interfaces) addresses() ([]netip.Addr, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	return slices.Clone(m.addrs), nil
}

// served returns the addresses of the target with their identifiers.
func (r *rig) served() map[netip.Addr]target.PortID {
	at := map[netip.Addr]target.PortID{}
	for _, l := range r.target.Listeners() {
		at[l.Addr().Addr()] = l.ID()
	}
	return at
}

// wantServed checks the listeners of the target, and that subsystem a is on all of them.
func (r *rig) wantServed(step string, at map[netip.Addr]target.PortID) {
	r.t.Helper()
	got := r.served()
	if fmt.Sprint(got) != fmt.Sprint(at) {
		r.t.Errorf("%s: it listens at %v, want %v", step, got, at)
	}
	for _, s := range r.target.Subsystems() {
		for _, id := range at {
			if p := s.Ports(); s.NQN() == "a" && !slices.Contains(p, id) {
				r.t.Errorf("%s: the subsystem is on %v, without %d", step, p, id)
			}
		}
	}
}

// scanned checks the machine's addresses as the target does periodically.
func (r *rig) scanned(id int) {
	r.mu.Lock()
	w := r.wildcards[id]
	r.mu.Unlock()
	if w == nil {
		r.t.Fatalf("listener %d is no wildcard", id)
	}
	r.scanAddresses(r.context, id)
}

const everywhere = `version: 1
listeners: [{id: 7, address: 0.0.0.0, ana-groups: [{group: 2, state: inaccessible}]}, {id: 65535, address: "[::]:4421"}]
subsystems:
  - nqn: a
    allow-any-host: true
    listeners: [7]
  - nqn: b
    allow-any-host: true
`

// TestWildcard: a listener on 0.0.0.0 serves all present addresses of the machine.
func TestWildcard(t *testing.T) {
	var has interfaces
	var reported []string
	r := newRig(t, func(c *Config) {
		c.Addresses = has.addresses
		c.Listening = func(of int, at netip.AddrPort) { reported = append(reported, fmt.Sprint(of, " ", at)) }
	})
	first, second, third := r.addr, r.second, r.addr.Next()
	lastAddr.Add(1) // the third address
	r.begin(r.doc(everywhere))
	r.wantServed("without an address", nil)
	if w := r.Status().Waiting; len(w) != 2 || w[0].Listener != 7 || w[0].Address != "0.0.0.0:4420" {
		t.Errorf("without an address these wait: %+v", w)
	}
	has.has(first, second, netip.MustParseAddr("2001:db8::1"))
	r.scanned(7)
	r.wantServed("two addresses", map[netip.Addr]target.PortID{first: 7, second: 65534})
	for _, l := range r.target.Listeners() {
		if s := l.ANAState(2); s != capsule.ANAInaccessible {
			t.Errorf("listener %d begins with %v", l.ID(), s)
		}
	}
	if s := r.Status(); len(s.Addresses) != 2 || s.Addresses[0].Listener != 7 || s.Listeners != 2 {
		t.Errorf("the status has %+v", s)
	}
	if want := []string{fmt.Sprint("7 ", first, ":4420"), fmt.Sprint("7 ", second, ":4420")}; !slices.Equal(reported, want) {
		t.Errorf("called with %q, want %q", reported, want)
	}
	if r.listenerOf(65534) != 7 || r.listenerOf(3) != 3 {
		t.Error("an address is not one of the wildcard's")
	}
	has.has(second, third)
	r.scanned(7)
	r.wantServed("one has gone, and works yet", map[netip.Addr]target.PortID{first: 7, second: 65534, third: 65533})

	r.edit(func(d *config.Document) { d.Listeners[0].ANAGroups[0].State = "optimized" })
	for _, l := range r.target.Listeners() {
		if s := l.ANAState(2); s != capsule.ANAOptimized {
			t.Errorf("listener %d is %v after a change", l.ID(), s)
		}
	}
	r.edit(func(d *config.Document) { // one with the address of a part, and one with its identifier
		d.Listeners = append(d.Listeners, &config.Listener{ID: 65533, Address: config.Address{AddrPort: netip.AddrPortFrom(second, 4420)}})
		d.Subsystems[0].Listeners = append(d.Subsystems[0].Listeners, 65533)
	})
	r.scanned(7)
	r.wantServed("a listener of its own", map[netip.Addr]target.PortID{first: 7, second: 65533, third: 65534})
	r.edit(func(d *config.Document) {
		d.Listeners = d.Listeners[1:2]
		d.Subsystems[0].Listeners = nil
	})
	if got := r.served(); len(got) != 0 {
		t.Errorf("the wildcard is removed, and it listens at %v", got)
	}
}

// begin applies a document with wildcards.
func (r *rig) begin(doc *config.Document) {
	r.t.Helper()
	if _, err := r.Apply(doc, Options{Wait: true}); err != nil {
		r.t.Fatal(err)
	}
}

// edit makes a change that must succeed.
func (r *rig) edit(change func(*config.Document)) {
	r.t.Helper()
	if _, err := r.Edit(func(d *config.Document) error { change(d); return nil }, Options{}); err != nil {
		r.t.Fatal(err)
	}
}

// TestWildcardWaits: if listening at one address fails, only that one waits, until it disappears.
func TestWildcardWaits(t *testing.T) {
	var has interfaces
	r := newRig(t, func(c *Config) {
		c.Addresses = has.addresses
		c.Serves = func(a netip.Addr, _ config.Transport) bool { return a != netip.MustParseAddr("192.0.2.2") }
	})
	away := netip.MustParseAddr("192.0.2.1") // no machine has it
	has.has(away, r.addr, netip.MustParseAddr("192.0.2.2"))
	r.begin(r.doc("version: 1\nlisteners: [{id: 1, address: 0.0.0.0}]\n"))
	s := r.Status()
	if len(s.Addresses) != 1 || s.Addresses[0].Address != r.addr.String()+":4420" {
		t.Errorf("it serves %v", s.Addresses)
	}
	if len(s.Waiting) != 1 || s.Waiting[0].Listener != 1 || s.Waiting[0].Address != "192.0.2.1:4420" {
		t.Errorf("it waits for %v", s.Waiting)
	}
	has.has(r.addr)
	r.scanned(1)
	if w := r.Status().Waiting; len(w) != 0 {
		t.Errorf("the address is gone, and it waits for %v", w)
	}
}

// TestWildcardUndone: a change that fails leaves the wildcard as it was.
func TestWildcardUndone(t *testing.T) {
	var has interfaces
	r := newRig(t, func(c *Config) { c.Addresses = has.addresses })
	has.has(r.addr)
	r.begin(r.doc("version: 1\nlisteners: [{id: 1, address: 0.0.0.0}]\n"))
	_, err := r.Apply(r.doc("version: 1\nlisteners: [{id: 2, address: 192.0.2.1}]\n"), Options{})
	if !errors.As(err, new(*StepError)) {
		t.Fatal(err)
	}
	for limit := time.Now().Add(10 * time.Second); len(r.served()) != 1; time.Sleep(10 * time.Millisecond) {
		if time.Now().After(limit) {
			t.Fatalf("it listens at %v", r.served())
		}
	}
}

// TestWildcardKeepsItsHosts: a listener that cannot be opened at an address of a wildcard does not end the one
// there. One that was ended for it is restored when the change fails.
func TestWildcardKeepsItsHosts(t *testing.T) {
	var has interfaces
	r := newRig(t, func(c *Config) {
		c.Addresses = has.addresses
		open := c.Device
		c.Device = func(a netip.Addr, by config.Transport) (rdmatransport.Device, error) {
			if by == "verbs" {
				return nil, errors.New("no verbs for the test")
			}
			return open(a, by)
		}
		c.DeviceName = func(a netip.Addr, by config.Transport) string { return fmt.Sprint(a, by) }
	})
	has.has(r.addr)
	r.begin(r.doc("version: 1\nlisteners: [{id: 1, address: 0.0.0.0}]\nsubsystems: [{nqn: a, listeners: [1]}]\n"))
	kept := r.target.Listeners()[0]
	for i, change := range []func(*config.Document){
		func(d *config.Document) { d.Listeners[1].Transport = "verbs" },
		func(d *config.Document) { // a later step
			d.Subsystems[0].Namespaces = []*config.Namespace{{NSID: 1, File: &config.File{Path: config.Path(r.dir + "/none")}}}
		},
	} {
		_, err := r.Edit(func(d *config.Document) error {
			d.Listeners = append(d.Listeners, &config.Listener{ID: 2, Address: config.Address{AddrPort: netip.AddrPortFrom(r.addr, 4420)}})
			change(d)
			return nil
		}, Options{})
		if !errors.As(err, new(*StepError)) {
			t.Fatal(err)
		}
		r.wantServed("after "+err.Error(), map[netip.Addr]target.PortID{r.addr: 1})
		if i == 0 && r.target.Listeners()[0] != kept {
			t.Error("the listener is another: hosts were disconnected")
		}
	}
}
