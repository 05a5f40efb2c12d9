package config

import (
	"fmt"
	"path"
	"slices"
	"strings"

	"github.com/nvmeof-go/nvmeof/nvmeof"
)

// An Import is what a file of nvmetcli comes to.
type Import struct {
	Document *Document
	Keys     []ImportedKey // to be written to files of mode 0600
	Warnings Problems      // what is left out, or is otherwise here
}

// An ImportedKey is a secret that the file had, and the path at which the document
// wants it.
type ImportedKey struct {
	Path   string
	Secret string
}

// An nvmetReader turns the tree of nvmetcli's file into a document.
type nvmetReader struct {
	doc        *Document
	keyDir     string
	problems   Problems
	warnings   Problems
	keys       []ImportedKey
	hosts      map[string]*Host
	linked     map[string][]int // ports of each subsystem
	usedHosts  map[string]bool
	subsystems []*node
}

// ImportNvmetcli reads the file in which nvmetcli keeps the kernel's target,
// /etc/nvmet/config.json. Keys go to files in keyDir. Whatever has no counterpart
// here is a warning if the target serves hosts as well without it, else it is one
// of the [Problems].
func ImportNvmetcli(file string, text []byte, keyDir string) (*Import, error) {
	n, p := parseJSON(text)
	if p != nil {
		p.File = file
		return nil, Problems{*p}
	}
	r := &nvmetReader{doc: &Document{Version: Version}, keyDir: keyDir,
		hosts: map[string]*Host{}, linked: map[string][]int{}, usedHosts: map[string]bool{}}
	r.root(n)
	if len(r.problems) == 0 {
		found, _ := r.doc.review()
		for _, f := range found {
			f.Path = "as " + f.Path
			r.problems = append(r.problems, f)
		}
	}
	d := decoder{}
	if err := d.locate(file, r.problems).err(); err != nil {
		return nil, err
	}
	return &Import{r.doc, r.keys, d.locate(file, r.warnings)}, nil
}

func (r *nvmetReader) fail(n *node, where, fix, format string, args ...any) {
	r.problems = append(r.problems, Problem{At: n.at, Path: where, Text: fmt.Sprintf(format, args...), Fix: fix})
}

func (r *nvmetReader) warn(n *node, where, fix, format string, args ...any) {
	r.warnings = append(r.warnings, Problem{At: n.at, Path: where, Text: fmt.Sprintf(format, args...), Fix: fix})
}

// get finds a field of an object; nil if there is none.
func (n *node) get(name string) *node {
	if n == nil {
		return nil
	}
	for _, f := range n.fields {
		if f.name == name {
			return f.value
		}
	}
	return nil
}

// each visits the objects of a list field.
func (r *nvmetReader) each(n *node, name, where string, visit func(*node, string)) {
	l := n.get(name)
	if l == nil {
		return
	}
	if l.kind != kindList {
		r.fail(l, join(where, name), "", "is %v, want a list", l.kind)
		return
	}
	for i, item := range l.items {
		visit(item, fmt.Sprintf("%s[%d]", join(where, name), i))
	}
}

// known warns of fields that nvmetcli does not write.
func (r *nvmetReader) known(n *node, where string, names ...string) {
	if n == nil {
		return
	}
	for _, f := range n.fields {
		if !slices.Contains(names, f.name) {
			r.warn(f.value, join(where, f.name), "", "is not known here and left out")
		}
	}
}

// attributes visits a group's attributes, which are text.
func (r *nvmetReader) attributes(n *node, group, where string, table map[string]func(v *node, where string)) {
	g := n.get(group)
	if g == nil {
		return
	}
	for _, f := range g.fields {
		at := join(join(where, group), f.name)
		read, ok := table[f.name]
		switch {
		case !ok:
			r.warn(f.value, at, "", "has no counterpart here and is left out")
		case f.value.kind == kindList || f.value.kind == kindObject:
			r.fail(f.value, at, "", "is %v, want text", f.value.kind)
		default:
			read(f.value, at)
		}
	}
}

// only accepts values that mean what is done here anyway.
func (r *nvmetReader) only(values ...string) func(*node, string) {
	return func(v *node, where string) {
		if !slices.Contains(values, v.text) {
			r.warn(v, where, "", "%s has no counterpart here and is left out", nvmeof.Printable(v.text))
		}
	}
}

// into reads a number or a value into a field, by its bounds.
func (r *nvmetReader) number(to *int, low, high int) func(*node, string) {
	return func(v *node, where string) {
		var n int
		if _, err := fmt.Sscanf(v.text, "%d", &n); err != nil || fmt.Sprint(n) != v.text {
			r.fail(v, where, "", "%s is not a number", nvmeof.Printable(v.text))
		} else if n < low || n > high {
			r.fail(v, where, fmt.Sprintf("use %d to %d", low, high), "%d is out of range", n)
		} else {
			*to = n
		}
	}
}

func (r *nvmetReader) value(to value) func(*node, string) {
	return func(v *node, where string) {
		if err := to.UnmarshalText([]byte(v.text)); err != nil {
			r.fail(v, where, "", "%v", err)
		}
	}
}

func (r *nvmetReader) root(n *node) {
	if n.kind != kindObject {
		r.fail(n, "", "is it nvmetcli's file?", "is %v, want an object", n.kind)
		return
	}
	r.known(n, "", "discovery", "hosts", "ports", "subsystems")
	if d := n.get("discovery").get("nqn"); d != nil && d.text != discoveryNQN {
		r.value(&r.doc.DiscoveryNQN)(d, "discovery.nqn")
	}
	r.each(n, "hosts", "", r.host)
	r.each(n, "ports", "", r.port)
	r.each(n, "subsystems", "", r.subsystem)
	r.groups()
	for _, h := range n.get("hosts").list() {
		if nqn := h.get("nqn"); nqn != nil && !r.usedHosts[nqn.text] {
			r.warn(h, "hosts", "", "host %s is allowed nowhere and left out", nvmeof.Printable(nqn.text))
		}
	}
}

func (n *node) list() []*node {
	if n == nil {
		return nil
	}
	return n.items
}

func (r *nvmetReader) host(n *node, where string) {
	r.known(n, where, "nqn", "dhchap")
	nqn := n.get("nqn")
	if nqn == nil {
		r.fail(n, where, "", "nqn is missing")
		return
	}
	h := new(Host)
	r.value(&h.NQN)(nqn, where+".nqn")
	key := func(to *KeyFile, suffix string) func(*node, string) {
		return func(v *node, _ string) {
			if v.text == "" || v.text == "(null)" {
				return
			}
			name := path.Join(r.keyDir, fileName(string(h.NQN))+suffix)
			*to = KeyFile(name)
			r.keys = append(r.keys, ImportedKey{name, v.text})
		}
	}
	r.attributes(n, "dhchap", where, map[string]func(*node, string){
		"key": key(&h.KeyFile, ".key"), "ctrl_key": key(&h.ControllerKeyFile, ".ctrl.key"),
		"hash": func(v *node, where string) {
			var hash Hash
			r.value(&hash)(&node{at: v.at, text: strings.TrimSuffix(strings.TrimPrefix(v.text, "hmac("), ")")}, where)
			h.Hashes = []Hash{hash}
		},
		"dhgroup": func(v *node, where string) {
			var g Group
			r.value(&g)(v, where)
			h.DHGroups = []Group{g}
		},
	})
	if h.KeyFile == "" {
		h.Hashes, h.DHGroups = nil, nil
	}
	r.hosts[string(h.NQN)] = h
}

// fileName makes a name of an NQN that has no slash and does not climb.
func fileName(nqn string) string {
	return strings.Map(func(c rune) rune {
		if c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c >= '0' && c <= '9' || c == '-' || c == '_' || c == '.' {
			return c
		}
		return '_'
	}, nqn)
}

func (r *nvmetReader) port(n *node, where string) {
	r.known(n, where, "portid", "addr", "param", "ana_groups", "referrals", "subsystems", "enable")
	l := new(Listener)
	if id := n.get("portid"); id == nil {
		r.fail(n, where, "", "portid is missing")
	} else {
		r.number(&l.ID, 1, 65535)(id, where+".portid")
	}
	l.Address, _ = r.address(n, where)
	r.attributes(n, "param", where, map[string]func(*node, string){
		"inline_data_size": r.size(&r.doc.Limits.InCapsule), "pi_enable": r.only("0"),
		"max_queue_size": r.agreed(&r.doc.Limits.QueueDepth, 128, 2, 1024),
	})
	r.each(n, "ana_groups", where, func(g *node, where string) {
		x := &ANAGroup{State: "optimized"}
		if id := g.get("grpid"); id != nil {
			r.number(&x.Group, 1, 128)(id, where+".grpid")
		}
		if s := g.get("ana").get("state"); s != nil {
			r.value(&x.State)(s, where+".ana.state")
		}
		l.ANAGroups = append(l.ANAGroups, x)
	})
	r.each(n, "referrals", where, r.referral)
	r.each(n, "subsystems", where, func(s *node, _ string) { r.linked[s.text] = append(r.linked[s.text], l.ID) })
	r.doc.Listeners = append(r.doc.Listeners, l)
}

// size reads bytes that all ports have to agree on; -1 is the kernel's default.
func (r *nvmetReader) size(to *Size) func(*node, string) {
	return func(v *node, where string) {
		n := -1
		r.number(&n, -1, 65536)(v, where)
		if n < 0 || n == 4096 && *to == 0 {
			return
		}
		if *to != 0 && *to != Size(n) {
			r.warn(v, where, "", "%d is not that of an earlier port, which counts for all", n)
			return
		}
		*to = Size(n)
	}
}

// agreed reads a number that all have to agree on.
func (r *nvmetReader) agreed(to *int, usual, low, high int) func(*node, string) {
	return func(v *node, where string) {
		n := 0
		r.number(&n, low, high)(v, where)
		switch {
		case n == usual && *to == 0:
		case *to != 0 && *to != n:
			r.warn(v, where, "", "%d is not that of an earlier object, which counts for all", n)
		default:
			*to = n
		}
	}
}

// address reads where a port or a referral is.
func (r *nvmetReader) address(n *node, where string) (a Address, kind string) {
	addr, port := "", ""
	r.attributes(n, "addr", where, map[string]func(*node, string){
		"adrfam": func(v *node, where string) {
			if v.text != "ipv4" && v.text != "ipv6" {
				r.fail(v, where, "RDMA needs an IP address", "address family %s", nvmeof.Printable(v.text))
			}
		},
		"treq": r.only("not specified", "not required"), "tsas": func(*node, string) {}, "portid": func(*node, string) {},
		"trtype":  func(v *node, _ string) { kind = v.text },
		"traddr":  func(v *node, _ string) { addr = v.text },
		"trsvcid": func(v *node, _ string) { port = v.text },
	})
	at := n
	if x := n.get("addr"); x != nil {
		at = x
	}
	if kind != "rdma" {
		r.fail(at, where+".addr.trtype", "keep those ports with nvmetcli, or change them to rdma",
			"this target serves RDMA alone, and the transport is %s", nvmeof.Printable(kind))
		return a, kind
	}
	v, err := nvmeof.ParseAddress(addr, port)
	if err != nil {
		r.fail(at, where+".addr.traddr", "", "%v", err)
		return a, kind
	}
	r.value(&a)(&node{at: at.at, text: v.String()}, where+".addr.traddr")
	return a, kind
}

func (r *nvmetReader) referral(n *node, where string) {
	if e := n.get("enable"); e != nil && e.text == "0" {
		r.warn(n, where, "", "is not enabled and left out")
		return
	}
	x := new(Referral)
	if kind := n.get("addr").get("trtype"); kind != nil && kind.text == "tcp" {
		x.Transport = "tcp"
		kind.text = "rdma" // it is only passed on
	}
	x.Address, _ = r.address(n, where)
	r.doc.Referrals = append(r.doc.Referrals, x)
}

func (r *nvmetReader) subsystem(n *node, where string) {
	r.known(n, where, "nqn", "attr", "allowed_hosts", "namespaces", "passthru")
	s := new(Subsystem)
	if nqn := n.get("nqn"); nqn == nil {
		r.fail(n, where, "", "nqn is missing")
	} else {
		r.value(&s.NQN)(nqn, where+".nqn")
	}
	text := func(to *string) func(*node, string) {
		return func(v *node, _ string) { *to = strings.TrimSpace(v.text) }
	}
	r.attributes(n, "attr", where, map[string]func(*node, string){
		"allow_any_host": func(v *node, _ string) { s.AllowAnyHost = v.text == "1" },
		"serial":         text(&s.Serial), "model": text(&s.Model),
		"cntlid_min": r.number(&s.MinControllerID, 1, 65519), "cntlid_max": r.number(&s.MaxControllerID, 1, 65519),
		"qid_max": r.agreed(&r.doc.Limits.Queues, 128, 1, 65534),
		"version": func(*node, string) {}, "pi_enable": r.only("0"), "firmware": func(*node, string) {},
		"ieee_oui": r.only("0x000000", "0"),
	})
	r.each(n, "allowed_hosts", where, func(h *node, where string) {
		host := r.hosts[h.text]
		if host == nil {
			r.fail(h, where, "add it to hosts", "host %s is not defined", nvmeof.Printable(h.text))
			return
		}
		r.usedHosts[h.text] = true
		s.Hosts = append(s.Hosts, host)
	})
	r.each(n, "namespaces", where, func(ns *node, where string) { r.namespace(s, ns, where) })
	if p := n.get("passthru"); p != nil {
		for _, x := range append(p.list(), p) {
			if e := x.get("enable"); e != nil && e.text == "1" {
				r.fail(x, where+".passthru", "export the device as a block namespace", "the whole controller is passed through, which this target cannot")
			}
		}
	}
	switch s.Listeners = r.linked[string(s.NQN)]; {
	case len(s.Listeners) == 0:
		r.warn(n, where, "", "subsystem %s is on no port and left out", nvmeof.Printable(string(s.NQN)))
		return
	case len(s.Listeners) == len(r.doc.Listeners):
		s.Listeners = nil // all
	}
	r.doc.Subsystems = append(r.doc.Subsystems, s)
}

func (r *nvmetReader) namespace(s *Subsystem, n *node, where string) {
	r.known(n, where, "nsid", "ana_grpid", "enable", "device", "resv")
	x := new(Namespace)
	if id := n.get("nsid"); id == nil {
		r.fail(n, where, "", "nsid is missing")
	} else {
		r.number(&x.NSID, 1, 1024)(id, where+".nsid")
	}
	if e := n.get("enable"); e != nil && e.text == "0" {
		r.warn(n, where, "", "namespace %d is not enabled and left out", x.NSID)
		return
	}
	if g := n.get("ana_grpid"); g != nil {
		r.number(&x.ANAGroup, 1, 128)(g, where+".ana_grpid")
	}
	if x.ANAGroup == 1 {
		x.ANAGroup = 0
	}
	var p Path
	r.attributes(n, "device", where, map[string]func(*node, string){
		"path": r.value(&p),
		"uuid": r.value(&x.UUID),
		"nguid": func(v *node, where string) {
			if strings.Trim(v.text, "0-:") != "" {
				r.value(&x.NGUID)(v, where)
			}
		},
	})
	r.attributes(n, "resv", where, map[string]func(*node, string){"enable": func(*node, string) {}})
	if strings.HasPrefix(string(p), "/dev/") {
		x.Block = &Block{Path: p}
	} else {
		// The kernel serves files in blocks of the file system's size, at most 4096.
		x.File, x.BlockSize = &File{Path: p}, 4096
	}
	s.Namespaces = append(s.Namespaces, x)
}

// groups adds the states of groups that ports do not name: in the kernel's target
// they are inaccessible there, but for group 1.
func (r *nvmetReader) groups() {
	for _, s := range r.doc.Subsystems {
		for _, n := range s.Namespaces {
			for _, l := range r.doc.Listeners {
				named := slices.ContainsFunc(l.ANAGroups, func(g *ANAGroup) bool { return g.Group == n.ANAGroup })
				if n.ANAGroup > 1 && s.On(l.ID) && !named {
					l.ANAGroups = append(l.ANAGroups, &ANAGroup{n.ANAGroup, "inaccessible"})
				}
			}
		}
	}
}

// On reports whether the subsystem is on a listener.
func (s *Subsystem) On(id int) bool { return len(s.Listeners) == 0 || slices.Contains(s.Listeners, id) }
