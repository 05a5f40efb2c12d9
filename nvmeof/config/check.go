package config

import (
	"fmt"
	"math/bits"
	"net/netip"
	"slices"
	"strconv"
	"strings"

	"github.com/nvmeof-go/nvmeof/nvmeof"
)

// discoveryNQN is the well-known NQN of discovery subsystems.
const discoveryNQN = "nqn.2014-08.org.nvmexpress.discovery"

// Check checks a document whose fields are valid each by itself: that they fit together, and that the target can
// serve them. The error is of type [Problems], without positions.
func (doc *Document) Check() (warnings Problems, err error) {
	found, doubts := doc.review()
	return doubts, found.err()
}

// A reviewer collects the problems and doubts of a document.
type reviewer struct {
	doc           *Document
	count         int          // number of namespaces
	ids           map[int]bool // of the listeners
	found, doubts Problems
	serials       map[string]string       // path of the first use of each identifier, by kind and text
	uuids         map[UUID]namespaceIndex // namespaces by identifier, as in the next two
	nguids        map[NGUID]namespaceIndex
	eui64s        map[EUI64]namespaceIndex
}

func (r *reviewer) fail(path, fix, format string, args ...any) {
	r.found = append(r.found, Problem{Path: path, Text: fmt.Sprintf(format, args...), Fix: fix})
}

func (r *reviewer) doubt(path, fix, format string, args ...any) {
	r.doubts = append(r.doubts, Problem{Path: path, Text: fmt.Sprintf(format, args...), Fix: fix})
}

// A namespaceIndex is the place of a namespace in the lists of a document. Its text is made only when a problem is
// reported, since most namespaces have none.
type namespaceIndex struct{ subsystem, namespace int }

func (p namespaceIndex) String() string {
	return "subsystems[" + strconv.Itoa(p.subsystem) + "].namespaces[" + strconv.Itoa(p.namespace) + "]"
}

// once records that the field at path has an identifier, and reports a second use of the same one.
func (r *reviewer) once(kind, id, path, fix string) {
	key := kind + "\x00" + id
	if first, twice := r.serials[key]; twice {
		r.fail(path, fix, "%s %s is already used by %s", kind, id, first)
		return
	}
	r.serials[key] = path
}

func (doc *Document) review() (found, doubts Problems) {
	r := &reviewer{doc: doc, ids: map[int]bool{}, serials: map[string]string{}, uuids: map[UUID]namespaceIndex{}, nguids: map[NGUID]namespaceIndex{}, eui64s: map[EUI64]namespaceIndex{}}
	for _, s := range doc.Subsystems {
		r.count += len(s.Namespaces)
	}
	if doc.Version != Version {
		r.fail("version", fmt.Sprintf("this program knows version %d; newer files need a newer program", Version),
			"%d is not a version of this format", doc.Version)
	}
	if doc.DiscoveryNQN == discoveryNQN {
		r.fail("discovery-nqn", "leave it out", "every discovery subsystem has that name already")
	}
	r.limits(&doc.Limits)
	for _, p := range doc.Congestion.check() {
		r.fail("congestion."+p.Path, p.Fix, "%s", p.Text)
	}
	r.listeners()
	for i, s := range doc.Subsystems {
		r.subsystem(s, i)
	}
	r.backends()
	r.reservations()
	r.reports()
	r.keys()
	r.console(&doc.Console)
	r.group(&doc.Group)
	for i, x := range doc.Referrals {
		r.referral(x, fmt.Sprintf("referrals[%d]", i))
	}
	if len(doc.Listeners) == 0 {
		r.doubt("", "add listeners, unless this is for the gateways of a group", "no host can connect: there is no listener")
	}
	return r.found, r.doubts
}

func (r *reviewer) limits(l *Limits) {
	if l.InCapsule%16 != 0 {
		r.fail("limits.in-capsule", fmt.Sprintf("write %v", l.InCapsule/16*16+16), "%v is not a multiple of 16", l.InCapsule)
	}
	if l.MaxData > 0 && bits.OnesCount64(uint64(l.MaxData)) != 1 {
		r.fail("limits.max-data", fmt.Sprintf("write %v", Size(1)<<(bits.Len64(uint64(l.MaxData))-1)), "%v is not a power of two", l.MaxData)
	}
}

func (r *reviewer) listeners() {
	transports := map[netip.Addr]Transport{}
	for i, l := range r.doc.Listeners {
		r.ids[l.ID] = true
		path := fmt.Sprintf("listeners[%d]", i)
		r.once("listener", fmt.Sprint(l.ID), path+".id", "give each its own id")
		r.once("address", l.Address.String(), path+".address", "give each its own port, or address")
		used, other := r.doc.TransportOf(l), transports[l.Address.Addr()]
		if other != "" && other != used {
			where := path + ".transport"
			if l.Transport == "" {
				where = path + ".address"
			}
			r.fail(where, "give all listeners of an address the same transport", "another listener of %v has transport %s, this one has %s", l.Address.Addr(), other, used)
		}
		transports[l.Address.Addr()] = used
		groups := map[int]bool{}
		for j, g := range l.ANAGroups {
			if groups[g.Group] {
				r.fail(fmt.Sprintf("%s.ana-groups[%d].group", path, j), "keep one", "ANA group %d already has a state", g.Group)
			}
			groups[g.Group] = true
		}
	}
}

func (r *reviewer) subsystem(s *Subsystem, number int) {
	path := fmt.Sprintf("subsystems[%d]", number)
	switch s.NQN {
	case "": // only in a document that a program has made: Parse requires it
		r.fail(path+".nqn", "add one like nqn.2026-11.org.example:disk", "the subsystem has no name")
	case discoveryNQN, r.doc.DiscoveryNQN:
		r.fail(path+".nqn", "choose another", "%s is the name of the discovery subsystem", s.NQN)
	default:
		r.once("subsystem", string(s.NQN), path+".nqn", "merge the two, or rename one")
	}
	if s.MinControllerID > 0 && s.MaxControllerID > 0 && s.MinControllerID > s.MaxControllerID {
		r.fail(path+".min-controller-id", "swap the two", "%d is more than max-controller-id, which is %d", s.MinControllerID, s.MaxControllerID)
	}
	if len(s.Serial) > 20 || len(s.Model) > 40 {
		r.fail(path, "at most 20 and 40 characters", "serial number %q or model %q is too long", s.Serial, s.Model)
	}
	named := map[int]bool{}
	for i, id := range s.Listeners {
		where := fmt.Sprintf("%s.listeners[%d]", path, i)
		if named[id] {
			r.fail(where, "keep one", "listener %d is listed twice", id)
			continue
		}
		named[id] = true
		if !r.ids[id] {
			r.fail(where, "add the listener, or remove the number", "there is no listener %d", id)
		}
	}
	r.hosts(s, path)
	r.namespaces(s, number)
	if s.AllowAnyHost {
		r.doubt(path+".allow-any-host", "name the hosts instead", "every host that can reach the address may use the namespaces of the subsystem")
	} else if len(s.Hosts) == 0 {
		r.doubt(path, "add hosts", "no host may connect to %s", s.NQN)
	}
}

func (r *reviewer) hosts(s *Subsystem, path string) {
	names, exported := map[nvmeof.NQN]int{}, map[int]bool{}
	if slices.ContainsFunc(s.Hosts, func(h *Host) bool { return len(h.Namespaces) > 0 }) {
		for _, n := range s.Namespaces {
			exported[n.NSID] = true
		}
	}
	for i, h := range s.Hosts {
		where := fmt.Sprintf("%s.hosts[%d]", path, i)
		if first, twice := names[h.NQN]; twice {
			r.fail(where+".nqn", "keep one", "host %s is already hosts[%d]", h.NQN, first)
		} else {
			names[h.NQN] = i
		}
		if h.ControllerKeyFile != "" && h.KeyFile == "" {
			r.fail(where+".controller-key-file", "add key-file", "the target authenticates only to hosts that have a key")
		}
		if h.KeyFile == "" && len(h.Hashes)+len(h.DHGroups) > 0 {
			r.fail(where, "add key-file, or remove hashes and dh-groups", "hashes and dh-groups have no effect for a host without a key")
		}
		twice(r, where+".hashes", h.Hashes)
		twice(r, where+".dh-groups", h.DHGroups)
		seen := map[int]bool{}
		for j, n := range h.Namespaces {
			at := fmt.Sprintf("%s.namespaces[%d].nsid", where, j)
			if seen[n.NSID] {
				r.fail(at, "keep one", "namespace %d is listed twice", n.NSID)
			}
			seen[n.NSID] = true
			if !exported[n.NSID] {
				r.doubt(at, "check the number", "%s has no namespace %d", s.NQN, n.NSID)
			}
		}
	}
}

// twice reports the first item that a list has twice. It stops there, since the list can be as long as a document.
func twice[T comparable](r *reviewer, path string, list []T) {
	for i, x := range list {
		if slices.Contains(list[:i], x) {
			r.fail(fmt.Sprintf("%s[%d]", path, i), "keep one", "%v is listed twice", x)
			return
		}
	}
}

func (r *reviewer) namespaces(s *Subsystem, number int) {
	r.numbers(s, number)
	for i, n := range s.Namespaces {
		where := namespaceIndex{number, i}
		if n.kinds() != 1 {
			r.oneKind(n, where)
		}
		r.identity(n, where)
		if n.File != nil && n.File.ReadOnly && n.File.Size > 0 {
			r.fail(where.String()+".file.size", "leave it out", "a read-only file cannot have a size")
		}
		if n.RBD != nil && n.RBD.Size > 0 && (n.RBD.ReadOnly || strings.Contains(n.RBD.Image, "@")) {
			r.fail(where.String()+".rbd.size", "leave it out", "a read-only image cannot have a size")
		}
		if n.Memory != nil && int64(n.Memory.Size)%int64(max(n.BlockSize, 512)) != 0 {
			r.fail(where.String()+".memory.size", "", "%v is not a multiple of the block size, %d bytes", n.Memory.Size, max(n.BlockSize, 512))
		}
		if n.Memory != nil && n.Shared {
			r.fail(where.String()+".shared", "leave it out", "memory cannot be shared")
		}
	}
}

// numbers reports namespaces of a subsystem that have the same NSID.
func (r *reviewer) numbers(s *Subsystem, number int) {
	if s.ascending() {
		return
	}
	ids := make(map[int]int, len(s.Namespaces))
	for i, n := range s.Namespaces {
		if first, twice := ids[n.NSID]; twice {
			r.fail(namespaceIndex{number, i}.String()+".nsid", "give it another number", "namespace %d is already namespaces[%d]", n.NSID, first)
		} else {
			ids[n.NSID] = i
		}
	}
}

// ascending reports whether the NSIDs are in ascending order, as in most documents.
func (s *Subsystem) ascending() bool {
	for i, n := range s.Namespaces {
		if i > 0 && n.NSID <= s.Namespaces[i-1].NSID {
			return false
		}
	}
	return true
}

// kinds returns how many kinds of storage a namespace has.
func (n *Namespace) kinds() (count int) {
	for _, given := range [...]bool{n.File != nil, n.Block != nil, n.Memory != nil, n.RBD != nil} {
		if given {
			count++
		}
	}
	return count
}

// oneKind reports a namespace that has no storage, or more than one kind.
func (r *reviewer) oneKind(n *Namespace, where namespaceIndex) {
	var kinds []string
	for _, k := range [...]struct {
		name  string
		given bool
	}{{"file", n.File != nil}, {"block", n.Block != nil}, {"memory", n.Memory != nil}, {"rbd", n.RBD != nil}} {
		if k.given {
			kinds = append(kinds, k.name)
		}
	}
	if len(kinds) == 0 {
		r.fail(where.String(), "add file, block, memory or rbd", "nothing is exported")
		return
	}
	r.fail(where.String(), "keep one", "%s exclude each other", strings.Join(kinds, " and "))
}

// identity reports identifiers that two namespaces have: Linux ignores the second namespace.
func (r *reviewer) identity(n *Namespace, where namespaceIndex) {
	unique(r, r.uuids, n.UUID, where, "UUID", ".uuid", n.UUID.String)
	unique(r, r.nguids, n.NGUID, where, "NGUID", ".nguid", func() string { return fmt.Sprintf("%x", n.NGUID[:]) })
	unique(r, r.eui64s, n.EUI64, where, "EUI-64", ".eui64", func() string { return fmt.Sprintf("%x", n.EUI64[:]) })
}

// unique records which namespace has an identifier, and reports a second one. A zero id means that it has none.
func unique[K comparable](r *reviewer, users map[K]namespaceIndex, id K, where namespaceIndex, kind, field string, text func() string) {
	var none K
	if id == none {
		return
	}
	first, twice := users[id]
	if !twice {
		users[id] = where
		return
	}
	r.fail(where.String()+field, "hosts would ignore the second of the two: give it another", "%s %s is already used by %s", kind, text(), first.String()+field)
}

// backends reports files and devices that several namespaces export, unless all are shared and have the same
// options. It also reports files of state and of reservations that are named twice.
func (r *reviewer) backends() {
	users := make(map[Path]namespaceIndex, r.count)
	for i, s := range r.doc.Subsystems {
		if s.State != "" {
			r.once("file for state", string(s.State), fmt.Sprintf("subsystems[%d].state", i), "give each its own file")
		}
		for j, n := range s.Namespaces {
			if n.Reservations != "" {
				r.once("file for reservations", string(n.Reservations), fmt.Sprintf("subsystems[%d].namespaces[%d].reservations", i, j), "give each its own file")
			}
			p := n.Path()
			if p == "" {
				continue
			}
			here := namespaceIndex{i, j}
			first, twice := users[p]
			if !twice {
				users[p] = here
				continue
			}
			switch other := r.doc.Subsystems[first.subsystem].Namespaces[first.namespace]; {
			case !other.Shared || !n.Shared:
				r.fail(here.String(), "if the hosts coordinate their writes, set shared: true in both", "%s is already exported by %s", p, first)
			case !other.SameStore(n):
				r.fail(here.String(), "give both the same options", "%s is opened only once, but %s has other options for it", p, first)
			}
		}
	}
}

// reservations reports files for reservations or for the state of a subsystem that are also exported, or that are
// used for both.
func (r *reviewer) reservations() {
	if !slices.ContainsFunc(r.doc.Subsystems, func(s *Subsystem) bool {
		return s.State != "" || slices.ContainsFunc(s.Namespaces, func(n *Namespace) bool { return n.Reservations != "" })
	}) {
		return
	}
	exports, states := map[Path]string{}, map[Path]string{}
	for i, s := range r.doc.Subsystems {
		states[s.State] = fmt.Sprintf("subsystems[%d].state", i)
		for j, n := range s.Namespaces {
			exports[n.Path()] = fmt.Sprintf("subsystems[%d].namespaces[%d]", i, j)
		}
	}
	for i, s := range r.doc.Subsystems {
		if x := exports[s.State]; x != "" && s.State != "" {
			r.fail(fmt.Sprintf("subsystems[%d].state", i), "name another file", "%s is exported by %s", s.State, x)
		}
		for j, n := range s.Namespaces {
			at := fmt.Sprintf("subsystems[%d].namespaces[%d].reservations", i, j)
			if x := exports[n.Reservations]; x != "" && n.Reservations != "" {
				r.fail(at, "name another file", "%s is exported by %s", n.Reservations, x)
			}
			if x := states[n.Reservations]; x != "" && n.Reservations != "" {
				r.fail(at, "name another file", "%s is also used as %s", n.Reservations, x)
			}
			if n.Memory != nil && n.Reservations != "" && !n.HasIdentity() {
				r.doubt(at, "give the namespace a uuid", "memory has a new identity at each start: the saved reservations would not be its own, and the namespace would wait")
			}
		}
	}
}

// reports checks that the files of events, of the audit and of the console are used for nothing else. Otherwise
// lines would be appended to the data of hosts, or to another such file.
func (r *reviewer) reports() {
	users := map[Path]string{}
	one := func(p Path, path string) {
		switch user, twice := users[p]; {
		case p == "":
			return
		case twice:
			r.fail(path, "name another file", "%s is also used as %s", p, user)
		default:
			if user := r.user(p); user != "" {
				r.fail(path, "name another file", "%s is also used as %s", p, user)
			}
		}
		users[p] = path
	}
	one(r.doc.Events.File, "events.file")
	one(r.doc.Audit.File, "audit.file")
	one(r.doc.Console.Tokens, "console.tokens")
	one(r.doc.Console.TLS.Key, "console.tls.key")
	if tls := r.doc.Console.TLS; tls.Certificate != tls.Key { // one file may have both
		one(tls.Certificate, "console.tls.certificate")
	}
}

// user returns the field of the subsystems that names the path, or "".
func (r *reviewer) user(p Path) string {
	for i, s := range r.doc.Subsystems {
		at := fmt.Sprintf("subsystems[%d]", i)
		if s.State == p {
			return at + ".state"
		}
		for j, n := range s.Namespaces {
			switch p {
			case n.Path():
				return fmt.Sprintf("%s.namespaces[%d]", at, j)
			case n.Reservations:
				return fmt.Sprintf("%s.namespaces[%d].reservations", at, j)
			}
		}
	}
	return ""
}

// keys reports key files of hosts, and credentials for Ceph and for the group's store, that are exported or that
// the target writes to. Hosts could read and write an exported one.
func (r *reviewer) keys() {
	keys := map[Path]string{}
	for _, f := range r.doc.Group.Files() {
		keys[f.Path] = f.Where
	}
	for i, s := range r.doc.Subsystems {
		for j, n := range s.Namespaces {
			if n.RBD != nil && n.RBD.Conf != "" {
				keys[n.RBD.Conf] = namespaceIndex{i, j}.String() + ".rbd.conf"
			}
		}
		for j, h := range s.Hosts { // several hosts may use the same key
			keys[Path(h.KeyFile)] = fmt.Sprintf("subsystems[%d].hosts[%d].key-file", i, j)
			keys[Path(h.ControllerKeyFile)] = fmt.Sprintf("subsystems[%d].hosts[%d].controller-key-file", i, j)
		}
	}
	if delete(keys, ""); len(keys) == 0 {
		return
	}
	one := func(p Path, path string) {
		if key := keys[p]; key != "" {
			r.fail(path, "name another file", "%s is also used as %s", p, key)
		}
	}
	for i, s := range r.doc.Subsystems {
		one(s.State, fmt.Sprintf("subsystems[%d].state", i))
		for j, n := range s.Namespaces {
			one(n.Path(), namespaceIndex{i, j}.String())
			one(n.Reservations, namespaceIndex{i, j}.String()+".reservations")
		}
	}
}

// console reports a console without tokens, or without encryption on an address that is not a loopback one.
func (r *reviewer) console(c *Console) {
	switch encrypted := c.TLS != (ConsoleTLS{}); {
	case !c.Listen.IsValid():
		if *c != (Console{}) {
			r.fail("console.listen", "name an address and a port, as 127.0.0.1:9430", "is missing")
		}
		return
	case encrypted && (c.TLS.Certificate == "" || c.TLS.Key == ""):
		r.fail("console.tls", "name both", "a certificate without its key, or a key without its certificate")
	case !encrypted && !c.Listen.Addr().Unmap().IsLoopback():
		r.fail("console.tls", "name a certificate and its key, or listen on 127.0.0.1", "tokens would be sent to %v unencrypted", c.Listen.Addr())
	}
	if c.Tokens == "" {
		r.fail("console.tokens", "name a file that nvmeof token create has written", "is missing")
	}
	if c.Listen == r.doc.Metrics.Listen {
		r.fail("console.listen", "choose another port", "%v is also used as metrics.listen", c.Listen)
	}
}

// RBDPrefix precedes the name of an image where a path is expected for files and devices.
const RBDPrefix = "rbd:"

// Path returns the path of the file or device, or [RBDPrefix] and the name of the image, or "" for memory.
func (n *Namespace) Path() Path {
	switch {
	case n.File != nil:
		return n.File.Path
	case n.Block != nil:
		return n.Block.Path
	case n.RBD != nil:
		return RBDPrefix + Path(n.RBD.Image)
	}
	return ""
}

// HasIdentity reports whether the document has an identifier by which hosts recognize the namespace.
func (n *Namespace) HasIdentity() bool {
	return n.UUID != UUID{} || n.NGUID != NGUID{} || n.EUI64 != EUI64{}
}

// SameStore reports whether both namespaces export the same store with the same options.
func (n *Namespace) SameStore(o *Namespace) bool {
	return n.BlockSize == o.BlockSize && same(n.File, o.File) && same(n.Block, o.Block) && same(n.Memory, o.Memory) && same(n.RBD, o.RBD)
}

// same reports whether a and b are both nil or point to equal values.
func same[T comparable](a, b *T) bool {
	if a == nil || b == nil {
		return a == b
	}
	return *a == *b
}

func (r *reviewer) referral(x *Referral, path string) {
	r.once("referral", x.key(), path+".address", "keep one")
	if x.Address.Addr().IsUnspecified() {
		r.fail(path+".address", "give the address of the other service", "address %v: hosts cannot connect to it", x.Address.Addr())
	}
	for _, l := range r.doc.Listeners {
		if l.Address == x.Address && x.Transport != "tcp" {
			r.fail(path+".address", "remove it", "this target itself listens there: a referral names another discovery service")
		}
	}
}

// key returns the identity of a referral: address, transport and NQN.
func (x *Referral) key() string {
	key := x.Address.String()
	if x.Transport != "" && x.Transport != "rdma" {
		key += " " + string(x.Transport)
	}
	if x.NQN != "" && x.NQN != discoveryNQN {
		key += " " + string(x.NQN)
	}
	return key
}
