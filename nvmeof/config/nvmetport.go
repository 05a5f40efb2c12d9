package config

import (
	"slices"

	"github.com/nvmeof-go/nvmeof/nvmeof"
)

func (r *nvmetReader) port(n *node, where string) {
	if kind := n.get("addr").get("trtype"); kind != nil && kind.text != "rdma" {
		r.warn(kind, where, "keep it with nvmetcli, or change it to rdma", "this target serves only RDMA: the port with transport %s is left out", nvmeof.Printable(kind.text))
		r.each(n, "subsystems", where, func(s *node, _ string) { r.elsewhere[s.text] = true })
		return
	}
	r.known(n, where, "portid", "addr", "param", "ana_groups", "referrals", "subsystems", "enable")
	l := new(Listener)
	if id := n.get("portid"); id == nil {
		r.fail(n, where, "", "portid is missing")
	} else {
		r.number(&l.ID, 1, 65535)(id, where+".portid")
	}
	l.Address, _ = r.address(n, where, nil)
	r.attributes(n, "param", where, map[string]func(*node, string){
		"inline_data_size": r.size(&r.doc.Limits.InCapsule), "pi_enable": r.only("0"),
		"max_queue_size": r.agreed(&r.doc.Limits.QueueDepth, 128, 2, 1024),
	})
	r.objects(n, "ana_groups", where, func(g *node, where string) {
		x := &ANAGroup{State: "optimized"}
		if id := g.get("grpid"); id != nil {
			r.number(&x.Group, 1, 128)(id, where+".grpid")
		}
		if s := g.get("ana").get("state"); s != nil {
			r.value(&x.State)(s, where+".ana.state")
		}
		l.ANAGroups = append(l.ANAGroups, x)
	})
	r.objects(n, "referrals", where, r.referral)
	r.each(n, "subsystems", where, func(s *node, _ string) {
		if !slices.Contains(r.linked[s.text], l.ID) {
			r.linked[s.text] = append(r.linked[s.text], l.ID)
		}
	})
	r.doc.Listeners = append(r.doc.Listeners, l)
}

// size reads a number of bytes that is the same for all ports; -1 is the kernel's default.
func (r *nvmetReader) size(to *Size) func(*node, string) {
	return func(v *node, where string) {
		n := -1
		r.number(&n, -1, 65536)(v, where)
		if n < 0 || n == 4096 && *to == 0 {
			return
		}
		if *to != 0 && *to != Size(n) {
			r.warn(v, where, "", "%d differs from that of an earlier port, which is used for all", n)
			return
		}
		*to = Size(n)
	}
}

// agreed reads a number that is the same for all objects.
func (r *nvmetReader) agreed(to *int, usual, low, high int) func(*node, string) {
	return func(v *node, where string) {
		n := 0
		r.number(&n, low, high)(v, where)
		switch {
		case n == usual && *to == 0:
		case *to != 0 && *to != n:
			r.warn(v, where, "", "%d differs from that of an earlier object, which is used for all", n)
		default:
			*to = n
		}
	}
}

// address reads the address of a port or a referral.
func (r *nvmetReader) address(n *node, where string, referral *Referral) (a Address, kind string) {
	addr, port := "", ""
	table := map[string]func(*node, string){
		"adrfam": func(v *node, where string) {
			if v.text != "ipv4" && v.text != "ipv6" {
				r.fail(v, where, "RDMA needs an IP address", "address family %s", nvmeof.Printable(v.text))
			}
		},
		"treq": r.only("not specified", "not required"), "tsas": func(*node, string) {}, "portid": func(*node, string) {},
		"trtype":  func(v *node, _ string) { kind = v.text },
		"traddr":  func(v *node, _ string) { addr = v.text },
		"trsvcid": func(v *node, _ string) { port = v.text },
	}
	if referral != nil {
		table["portid"] = r.number(&referral.PortID, 0, 65535)
		table["treq"] = func(v *node, where string) {
			if referral.Secure = v.text == "required"; !referral.Secure {
				r.only("not specified", "not required")(v, where)
			}
		}
	}
	r.attributes(n, "addr", where, table)
	at := n
	if x := n.get("addr"); x != nil {
		at = x
	}
	if kind != "rdma" {
		r.fail(at, where+".addr.trtype", "keep those ports with nvmetcli, or change them to rdma",
			"this target serves only RDMA, but the transport is %s", nvmeof.Printable(kind))
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
	if !r.flag(n.get("enable"), where+".enable", true) {
		r.warn(n, where, "", "is not enabled, and is left out")
		return
	}
	x := new(Referral)
	switch kind := n.get("addr").get("trtype"); {
	case kind == nil || kind.text == "rdma":
	case kind.text == "tcp":
		x.Transport = "tcp"
		kind.text = "rdma" // a referral to TCP is accepted, since it is only passed on
	default:
		r.warn(kind, where, "", "has transport %s, and is left out", nvmeof.Printable(kind.text))
		return
	}
	x.Address, _ = r.address(n, where, x)
	for _, o := range r.referrals { // the kernel has referrals of each port, this target those of all ports
		if o.key() != x.key() {
			continue
		}
		if o.Referral != *x {
			r.warn(n, where, "", "differs from %s, which is used for all ports", o.where)
		}
		return
	}
	r.referrals = append(r.referrals, &foundReferral{*x, n, where})
}

// A foundReferral is a referral, and its place in the file.
type foundReferral struct {
	Referral
	n     *node
	where string
}

// refer adds the referrals to the document, except those to this target itself: its discovery log has all of its
// ports.
func (r *nvmetReader) refer() {
	for _, x := range r.referrals {
		if x.Transport != "tcp" && slices.ContainsFunc(r.doc.Listeners, func(l *Listener) bool { return l.Address == x.Address }) {
			r.warn(x.n, x.where, "", "is left out: it refers to a port of this target, which the discovery log lists anyway")
			continue
		}
		r.doc.Referrals = append(r.doc.Referrals, &x.Referral)
	}
}
