package config

import (
	"slices"
	"strings"

	"github.com/nvmeof-go/nvmeof/nvmeof"
)

func (r *nvmetReader) subsystem(n *node, where string) {
	r.known(n, where, "nqn", "attr", "allowed_hosts", "namespaces", "passthru")
	s := new(Subsystem)
	if nqn := n.get("nqn"); nqn == nil {
		r.fail(n, where, "", "nqn is missing")
	} else {
		r.value((*name)(&s.NQN))(nqn, where+".nqn")
	}
	text := func(to *string) func(*node, string) {
		return func(v *node, _ string) { *to = strings.TrimSpace(v.text) }
	}
	r.attributes(n, "attr", where, map[string]func(*node, string){
		"allow_any_host": func(v *node, where string) { s.AllowAnyHost = r.flag(v, where, false) },
		"serial":         text(&s.Serial), "model": text(&s.Model),
		"cntlid_min": r.number(&s.MinControllerID, 1, 65519), "cntlid_max": r.number(&s.MaxControllerID, 1, 65519),
		"qid_max": r.agreed(&r.doc.Limits.Queues, 128, 1, 65534),
		"version": r.version(&s.NVMeVersion), "pi_enable": r.only("0"), "firmware": func(*node, string) {},
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
	r.objects(n, "namespaces", where, func(ns *node, where string) { r.namespace(s, ns, where) })
	if p := n.get("passthru"); p != nil {
		for _, x := range append(p.list(), p) {
			if r.flag(x.get("enable"), where+".passthru.enable", false) {
				r.fail(x, where+".passthru", "export the device as a block namespace", "this target cannot pass a whole controller through")
			}
		}
	}
	switch s.Listeners = r.linked[string(s.NQN)]; {
	case len(s.Listeners) == 0 && r.elsewhere[string(s.NQN)]:
		r.warn(n, where, "", "subsystem %s is left out, since its ports are left out", nvmeof.Printable(string(s.NQN)))
		return
	case len(s.Listeners) == 0:
		r.warn(n, where, "", "subsystem %s is left out, since it is on no port", nvmeof.Printable(string(s.NQN)))
		return
	case len(s.Listeners) == len(r.doc.Listeners):
		s.Listeners = nil // all listeners
	}
	r.doc.Subsystems = append(r.doc.Subsystems, s)
}

// version reads the NVMe version that controllers report. Other versions that Linux accepts are left out with a
// warning.
func (r *nvmetReader) version(to *NVMeVersion) func(*node, string) {
	return func(v *node, where string) {
		text := v.text
		if short, ok := strings.CutSuffix(text, ".0"); ok && strings.Count(text, ".") == 2 {
			text = short
		}
		if to.UnmarshalText([]byte(text)) != nil {
			r.warn(v, where, "controllers report 2.0", "%s is left out; supported versions are %s", nvmeof.Printable(v.text), strings.Join(versions, ", "))
		}
	}
}

func (r *nvmetReader) namespace(s *Subsystem, n *node, where string) {
	r.known(n, where, "nsid", "ana", "ana_grpid", "enable", "device", "resv")
	x := new(Namespace)
	if id := n.get("nsid"); id == nil {
		r.fail(n, where, "", "nsid is missing")
	} else {
		r.number(&x.NSID, 1, 4096)(id, where+".nsid")
	}
	if !r.flag(n.get("enable"), where+".enable", true) {
		r.warn(n, where, "", "namespace %d is not enabled, and is left out", x.NSID)
		return
	}
	r.attributes(n, "ana", where, map[string]func(*node, string){"grpid": r.number(&x.ANAGroup, 1, 128)})
	if g := n.get("ana_grpid"); g != nil { // nvmetcli writes the group twice, and applies this one last
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
	r.attributes(n, "resv", where, map[string]func(*node, string){
		"enable": func(v *node, where string) { x.RefuseReservations = !r.flag(v, where, true) },
	})
	if n.get("device").get("path") == nil {
		r.fail(n, where, "", "device.path is missing: the file or device that is exported")
	}
	if strings.HasPrefix(string(p), "/dev/") {
		x.Block = &Block{Path: p}
	} else {
		// The kernel serves files in blocks of the file system's block size, at most 4096 bytes.
		x.File, x.BlockSize = &File{Path: p}, 4096
	}
	s.Namespaces = append(s.Namespaces, x)
}

// groups adds the states of groups that a port does not name: in the kernel's target they are inaccessible there,
// except group 1.
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

// On reports whether the subsystem is on the listener with the identifier.
func (s *Subsystem) On(id int) bool { return len(s.Listeners) == 0 || slices.Contains(s.Listeners, id) }
