package config

import (
	"fmt"
	"path"
	"slices"
	"strings"

	"github.com/nvmeof-go/nvmeof/nvmeof"
)

// An Import is the result of an import of nvmetcli's file.
type Import struct {
	Document *Document
	Keys     []ImportedKey // to be written to files of mode 0600
	Warnings Problems      // what is left out or differs
}

// An ImportedKey is a secret of the file, and the path at which the document expects it.
type ImportedKey struct {
	Path   string
	Secret string
}

// An nvmetReader converts nvmetcli's file to a document.
type nvmetReader struct {
	doc       *Document
	keyDir    string
	problems  Problems
	warnings  Problems
	keys      []ImportedKey
	hosts     map[string]*Host
	linked    map[string][]int // listeners of each subsystem, by NQN
	usedHosts map[string]bool
	elsewhere map[string]bool // NQNs of subsystems on ports that are left out
	referrals []*foundReferral
}

// ImportNvmetcli reads nvmetcli's configuration of the kernel's target, /etc/nvmet/config.json. Keys go to files in
// keyDir. A setting without a counterpart is a warning if hosts are served as well without it, else it is one of
// the [Problems]. Ports of transports other than RDMA are left out with a warning, as are subsystems without
// another port. At least one port must remain.
func ImportNvmetcli(file string, text []byte, keyDir string) (*Import, error) {
	n, p := parseJSON(text)
	if p != nil {
		p.File = file
		return nil, Problems{*p}
	}
	r := &nvmetReader{doc: &Document{Version: Version}, keyDir: keyDir,
		hosts: map[string]*Host{}, linked: map[string][]int{}, usedHosts: map[string]bool{}, elsewhere: map[string]bool{}}
	if r.repeated(n, ""); len(r.problems) == 0 {
		r.root(n)
	}
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
	r.keys = slices.DeleteFunc(r.keys, r.unused)
	return &Import{r.doc, r.keys, d.locate(file, r.warnings)}, nil
}

// unused reports whether no host of the document uses the key.
func (r *nvmetReader) unused(k ImportedKey) bool {
	for _, s := range r.doc.Subsystems {
		for _, h := range s.Hosts {
			if string(h.KeyFile) == k.Path || string(h.ControllerKeyFile) == k.Path {
				return false
			}
		}
	}
	return true
}

func (r *nvmetReader) fail(n *node, where, fix, format string, args ...any) {
	r.problems = append(r.problems, Problem{At: n.at, Path: where, Text: fmt.Sprintf(format, args...), Fix: fix})
}

func (r *nvmetReader) warn(n *node, where, fix, format string, args ...any) {
	r.warnings = append(r.warnings, Problem{At: n.at, Path: where, Text: fmt.Sprintf(format, args...), Fix: fix})
}

// get returns the value of a field of an object, or nil.
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

// each calls visit for each item of a list field.
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

// objects calls visit for each item of a list field that is an object.
func (r *nvmetReader) objects(n *node, name, where string, visit func(*node, string)) {
	r.each(n, name, where, func(item *node, where string) {
		if r.object(item, where) {
			visit(item, where)
		}
	})
}

// known warns of fields other than those that nvmetcli writes.
func (r *nvmetReader) known(n *node, where string, names ...string) {
	if n == nil {
		return
	}
	for _, f := range n.fields {
		if !slices.Contains(names, f.name) {
			r.warn(f.value, join(where, f.name), "", "is unknown here, and is left out")
		}
	}
}

// attributes calls the function of table for each attribute of a group. Attributes are strings.
func (r *nvmetReader) attributes(n *node, group, where string, table map[string]func(v *node, where string)) {
	g := n.get(group)
	if g == nil || !r.object(g, join(where, group)) {
		return
	}
	for _, f := range g.fields {
		at := join(join(where, group), f.name)
		read, ok := table[f.name]
		switch {
		case !ok:
			r.warn(f.value, at, "", "has no counterpart here, and is left out")
		case f.value.kind == kindList || f.value.kind == kindObject:
			r.fail(f.value, at, "", "is %v, want text", f.value.kind)
		default:
			read(f.value, at)
		}
	}
}

// only accepts values that describe what this target does anyway, and warns of others.
func (r *nvmetReader) only(values ...string) func(*node, string) {
	return func(v *node, where string) {
		if !slices.Contains(values, v.text) {
			r.warn(v, where, "", "%s has no counterpart here, and is left out", nvmeof.Printable(v.text))
		}
	}
}

// number reads a number into *to, and checks its range.
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
		r.fail(n, "", "check that nvmetcli wrote the file", "is %v, want an object", n.kind)
		return
	}
	if isSPDK(n) {
		r.fail(n, "", noCounterpart, "this is a configuration of SPDK, not of nvmetcli")
		return
	}
	r.known(n, "", "discovery", "hosts", "ports", "subsystems")
	if d := n.get("discovery").get("nqn"); d != nil && d.text != discoveryNQN {
		r.value((*name)(&r.doc.DiscoveryNQN))(d, "discovery.nqn")
	}
	r.objects(n, "hosts", "", r.host)
	r.objects(n, "ports", "", r.port)
	if ports := n.get("ports").list(); len(ports) > 0 && len(r.doc.Listeners) == 0 {
		r.fail(n.get("ports"), "ports", "keep it with nvmetcli, or change a port to rdma", "no port has transport rdma, the only one that this target serves")
		return
	}
	r.refer()
	r.objects(n, "subsystems", "", r.subsystem)
	r.groups()
	for _, h := range n.get("hosts").list() {
		if nqn := h.get("nqn"); nqn != nil && !r.usedHosts[nqn.text] {
			r.warn(h, "hosts", "", "host %s is not allowed by any subsystem, and is left out", nvmeof.Printable(nqn.text))
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
	r.value((*name)(&h.NQN))(nqn, where+".nqn")
	key := func(to *KeyFile, suffix string) func(*node, string) {
		return func(v *node, _ string) {
			if v.text == "" || v.text == "(null)" {
				return
			}
			name := path.Join(r.keyDir, fileName(string(h.NQN)))
			for slices.ContainsFunc(r.keys, func(k ImportedKey) bool { return k.Path == name+suffix }) {
				name += "_" // file names of NQNs that differ only in replaced characters
			}
			*to = KeyFile(name + suffix)
			r.keys = append(r.keys, ImportedKey{name + suffix, v.text})
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

// fileName returns a file name made from an NQN. It contains no slash.
func fileName(nqn string) string {
	return strings.Map(func(c rune) rune {
		if c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c >= '0' && c <= '9' || c == '-' || c == '_' || c == '.' {
			return c
		}
		return '_'
	}, nqn)
}
