package config

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/nvmeof-go/nvmeof/nvmeof"
)

// Gateways configures a target as a gateway of a group, whose gateways share their subsystems.
type Gateways struct {
	Store        string   `json:"store,omitzero" max:"1024" doc:"Store of the group's state: etcd://ADDRESS,ADDRESS.../NAME, or rados://POOL/NAME in a Ceph cluster, which requires a build with -tags rbd. Subsystems and referrals are then those of the group, not of this file. Default: the target is in no group."`
	Gateway      string   `json:"gateway,omitzero" max:"64" doc:"Name of this gateway, unique in the group. Default: the machine's host name."`
	TLS          GroupTLS `json:"tls,omitzero" doc:"TLS certificates for etcd. Default: the connection is not encrypted."`
	User         string   `json:"user,omitzero" max:"256" doc:"User of etcd. Default: none."`
	PasswordFile Path     `json:"password-file,omitzero" doc:"Absolute path of a file with the user's password."`
	Conf         Path     `json:"conf,omitzero" doc:"Absolute path of the Ceph cluster's ceph.conf. Default: CEPH_CONF, or /etc/ceph/ceph.conf."`
	ID           string   `json:"id,omitzero" max:"128" doc:"Client of the Ceph cluster, without the prefix client. Default admin."`
}

// A GroupTLS has the files with which a gateway and the group's store authenticate each other.
type GroupTLS struct {
	Authority   Path `json:"authority,omitzero" doc:"Absolute path of the CA certificates for the store, in PEM. Default: those of the machine."`
	Certificate Path `json:"certificate,omitzero" doc:"Absolute path of the gateway's certificate, in PEM."`
	Key         Path `json:"key,omitzero" doc:"Absolute path of its private key, in PEM."`
}

// A Reference is a file that a document names, with the path of the field.
type Reference struct {
	Where string
	Path  Path
}

// Files returns the credentials for the group's store. Whoever can read or write these files can do all that the
// gateway can. Files that are not given are left out.
func (g *Gateways) Files() (all []Reference) {
	for _, f := range []Reference{{"group.password-file", g.PasswordFile}, {"group.tls.key", g.TLS.Key}, {"group.tls.certificate", g.TLS.Certificate},
		{"group.tls.authority", g.TLS.Authority}, {"group.conf", g.Conf}} {
		if f.Path != "" {
			all = append(all, f)
		}
	}
	return all
}

// Ways to fence a gateway.
const (
	FenceStorage Fence = "storage" // the storage refuses a fenced gateway
	FenceLease   Fence = "lease"   // a gateway stops by its own clock
)

// A GroupStore is a parsed Gateways.Store.
type GroupStore struct {
	Kind      string   // etcd or rados
	Addresses []string // of etcd, each with a port
	Pool      string   // of rados
	Name      string   // of the group
}

// ParseGroupStore parses Gateways.Store.
func ParseGroupStore(text string) (s GroupStore, err error) {
	kind, rest, _ := strings.Cut(text, "://")
	if kind != "etcd" && kind != "rados" {
		return s, fmt.Errorf("%s: want etcd://ADDRESS,ADDRESS.../NAME or rados://POOL/NAME", nvmeof.Printable(text))
	}
	at, name, _ := strings.Cut(rest, "/")
	if err := checkName("the group's name", name); err != nil {
		return s, err
	}
	s.Kind, s.Name = kind, name
	switch kind {
	case "etcd":
		for a := range strings.SplitSeq(at, ",") {
			withPort, err := etcdAddress(a)
			if err != nil {
				return s, err
			}
			s.Addresses = append(s.Addresses, withPort)
		}
	case "rados":
		if s.Pool = at; at == "" {
			return s, fmt.Errorf("a pool is missing, as in rados://rbd/%s", name)
		}
	}
	return s, nil
}

// etcdPort is the default port of etcd for clients.
const etcdPort = "2379"

func etcdAddress(text string) (string, error) {
	host, port := text, etcdPort
	if i := strings.LastIndexByte(text, ':'); i >= 0 && (strings.IndexByte(text, ':') == i || strings.HasSuffix(text[:i], "]")) {
		host, port = text[:i], text[i+1:]
	}
	bare := strings.TrimSuffix(strings.TrimPrefix(host, "["), "]")
	if n, err := strconv.ParseUint(port, 10, 16); bare == "" || err != nil || n == 0 || strings.ContainsAny(bare, "[]@?#% \t") {
		return "", fmt.Errorf("etcd address %s: want HOST or HOST:PORT", nvmeof.Printable(text))
	}
	if strings.Contains(bare, ":") {
		bare = "[" + bare + "]"
	}
	return bare + ":" + port, nil
}

// checkName returns an error for a name that could have a special meaning in a key of the store or on a terminal.
func checkName(what, name string) error {
	letters := func(r rune) bool {
		return !(r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9' || strings.ContainsRune("-_.", r))
	}
	if name == "" || len(name) > 64 || strings.ContainsFunc(name, letters) || strings.Trim(name, ".") == "" {
		return fmt.Errorf("%s, %q: want 1 to 64 letters, digits, hyphens, underscores or dots", what, name)
	}
	return nil
}

// An Erasing is a namespace that was removed, and whose data is to be erased by the gateway that serves its ANA
// group. The document has it until that is done.
type Erasing struct {
	Subsystem nvmeof.NQN `json:"subsystem" need:"yes" doc:"Subsystem that had the namespace."`
	Namespace *Namespace `json:"namespace" need:"yes" doc:"The namespace as it was."`
	Why       string     `json:"why,omitzero" doc:"Error of the last attempt."`
}

// Shared returns the part of a document that all gateways of a group share: subsystems, referrals, and namespaces
// that are being erased. Like a [Document.Successor], it has the same namespaces as doc.
func (doc *Document) Shared() *Document {
	part := &Document{Version: Version, Subsystems: doc.Subsystems, Referrals: doc.Referrals, Erasing: doc.Erasing}
	return part.Successor()
}

// TakeShared copies that part from another document, like [Document.Successor].
func (doc *Document) TakeShared(from *Document) {
	from = from.Shared()
	doc.Subsystems, doc.Referrals, doc.Erasing = from.Subsystems, from.Referrals, from.Erasing
}

// Grouped reports whether the document is that of a gateway.
func (doc *Document) Grouped() bool { return doc.Group.Store != "" }

// ANA groups that are assigned to the namespaces of a gateway, to spread them over the gateways. Namespaces that
// the storage fences are not in the same groups as those that it cannot fence.
const (
	spread      = 32
	firstFenced = 1
	firstLeased = firstFenced + spread
)

// FenceOf returns how a namespace is fenced: as it says, or as its storage can. It returns "" if it cannot be
// fenced.
func (n *Namespace) FenceOf() Fence {
	if n.Fence == "" && n.RBD != nil {
		return FenceStorage
	}
	return n.Fence
}

// AssignGroups assigns an ANA group to each namespace of a gateway that has none. The group is computed from the
// NQN of the subsystem and the NSID, so that it is always the same.
func (doc *Document) AssignGroups() {
	for _, s := range doc.Subsystems {
		for i, n := range s.Namespaces {
			if doc.Grouped() && n.ANAGroup == 0 {
				s.Namespaces[i] = n.Clone()
				s.Namespaces[i].ANAGroup = doc.groupOf(s.NQN, n)
			}
		}
	}
}

func (doc *Document) groupOf(nqn nvmeof.NQN, n *Namespace) int {
	switch {
	case n.ANAGroup > 0:
		return n.ANAGroup
	case !doc.Grouped():
		return 1
	}
	sum := uint32(n.NSID)
	for _, c := range []byte(nqn) {
		sum = sum*31 + uint32(c)
	}
	if n.FenceOf() == FenceLease {
		return firstLeased + int(sum%spread)
	}
	return firstFenced + int(sum%spread)
}

// group reports what gateways cannot share.
func (r *reviewer) group(g *Gateways) {
	if g.Store == "" {
		if *g != (Gateways{}) {
			r.fail("group.store", "give it, as in etcd://192.0.2.1/NAME", "is missing")
		}
		return
	}
	store, err := ParseGroupStore(g.Store)
	if err != nil {
		r.fail("group.store", "", "%v", err)
	}
	if err := checkName("the gateway's name", g.Gateway); g.Gateway != "" && err != nil {
		r.fail("group.gateway", "", "%v", err)
	}
	if store.Kind == "rados" && (g.TLS != (GroupTLS{}) || g.User != "" || g.PasswordFile != "") {
		r.fail("group", "leave them out", "tls, user and password-file are only for etcd")
	}
	if store.Kind == "etcd" && (g.Conf != "" || g.ID != "") {
		r.fail("group", "leave them out", "conf and id are only for a Ceph cluster")
	}
	if (g.TLS.Certificate == "") != (g.TLS.Key == "") {
		r.fail("group.tls", "name both", "a certificate without its key, or a key without its certificate")
	}
	if (g.User == "") != (g.PasswordFile == "") {
		r.fail("group.user", "name both", "a user without a password-file, or a password-file without a user")
	}
	fences := map[int]Fence{}
	for _, e := range r.doc.Erasing {
		fences[r.doc.groupOf(e.Subsystem, e.Namespace)] = e.Namespace.FenceOf()
	}
	for i, s := range r.doc.Subsystems {
		if s.State != "" {
			r.fail(fmt.Sprintf("subsystems[%d].state", i), "leave it out", "the state of a group's subsystems is in the group's store")
		}
		if s.MinControllerID > 0 || s.MaxControllerID > 0 {
			r.fail(fmt.Sprintf("subsystems[%d]", i), "leave them out", "each gateway has its own range of controller identifiers")
		}
		for j, n := range s.Namespaces {
			r.gatewayNamespace(s.NQN, n, namespaceIndex{i, j}, fences)
		}
	}
}

// gatewayNamespace reports a namespace that only one gateway would have, or that two could write to.
func (r *reviewer) gatewayNamespace(nqn nvmeof.NQN, n *Namespace, at namespaceIndex, fences map[int]Fence) {
	if n.Memory != nil {
		r.fail(at.String()+".memory", "export a Ceph image, or a file or device that all gateways have", "memory exists in one gateway only, and is lost with it")
		return
	}
	if n.Reservations != "" {
		r.fail(at.String()+".reservations", "leave it out", "the reservations of a group's namespaces are in the group's store")
	}
	if n.Shared {
		r.fail(at.String()+".shared", "leave it out", "namespaces of a group cannot share a store")
	}
	fence := n.FenceOf()
	switch {
	case fence == "":
		r.fail(at.String()+".fence", "set fence: lease if every gateway has the same storage there, and you accept that a gateway that its machine delays can write late",
			"nothing prevents a gateway that was declared failed from writing to %s", n.Path())
		return
	case fence == FenceStorage && n.RBD == nil:
		r.fail(at.String()+".fence", "set fence: lease", "the storage of %s cannot fence a gateway", n.Path())
		return
	case n.File != nil && n.File.Buffered, n.Block != nil && n.Block.Buffered:
		r.fail(at.String(), "remove buffered",
			"data that hosts write to %s would be in the page cache of one gateway, which could write it when another gateway already serves it", n.Path())
	}
	group := r.doc.groupOf(nqn, n)
	switch other := fences[group]; other {
	case fence:
		return
	case "":
	default:
		r.fail(at.String()+".ana-group", "give it another", "ANA group %d moves as a whole, but has namespaces with fence: storage and others with fence: lease", group)
	}
	fences[group] = fence
}

// Groups returns the ANA groups of a gateway's namespaces, including those that are being erased, in ascending
// order, and how each is fenced.
func (doc *Document) Groups() (groups []int, fences map[int]Fence) {
	fences = map[int]Fence{}
	note := func(nqn nvmeof.NQN, n *Namespace) {
		g := doc.groupOf(nqn, n)
		if fences[g] == "" {
			groups = append(groups, g)
		}
		fences[g] = n.FenceOf()
	}
	for _, s := range doc.Subsystems {
		for _, n := range s.Namespaces {
			note(s.NQN, n)
		}
	}
	for _, e := range doc.Erasing {
		note(e.Subsystem, e.Namespace)
	}
	slices.Sort(groups)
	return groups, fences
}
