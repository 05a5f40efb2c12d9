package doctor

import (
	"fmt"
	"net/netip"
	"slices"
	"strings"
)

// judgeAddresses determines the transports for each address of an interface.
func (r *Report) judgeAddresses(i *Interface) {
	for n, p := range i.Addresses {
		addr := zoned(Address{i.Name, p})
		t := Transport{Address: addr, Interface: i.Name, Auto: i.choices[n].name, Why: i.choices[n].why}
		t.device = r.owner(i, p.Addr())
		softroce, verbs := r.softroceProblem(i, addr), r.verbsProblem(&t)
		t.Softroce, t.Verbs = softroce == "", verbs == ""
		t.Problem = softroce
		if t.Auto == "verbs" {
			t.Problem = verbs
		}
		t.Works = t.Problem == ""
		r.Transports = append(r.Transports, t)
	}
}

// owner returns the RDMA device of an address: the device with such a GID or, if GIDs are not IP addresses (iWARP,
// InfiniBand), the one of its interface.
func (r *Report) owner(i *Interface, addr netip.Addr) string {
	for _, d := range r.Devices {
		for _, p := range d.Ports {
			if slices.ContainsFunc(p.GIDs, func(g GID) bool { return g.Address == addr.Unmap() && g.Netdev == i.Name }) {
				return d.Name
			}
		}
	}
	for _, d := range r.Devices {
		if d.Transport != transportRoCE && slices.Contains(i.RDMA, d.Name) {
			return d.Name
		}
	}
	return ""
}

// softroceProblem returns why softroce cannot use an address, or "".
func (r *Report) softroceProblem(i *Interface, addr netip.Addr) string {
	if i.State == "down" {
		return i.Name + " is down"
	}
	if i.PathMTU == 0 {
		return fmt.Sprintf("an MTU of %d is too small for RoCE", i.MTU)
	}
	for _, h := range r.RoCEPort {
		if h.Address == addr.WithZone("") || h.Address.IsUnspecified() && (h.Address.Is4() == addr.Is4()) {
			return "UDP port 4791 is in use by " + h.who()
		}
	}
	return ""
}

// verbsProblem returns why the verbs transport cannot use an address, or "".
func (r *Report) verbsProblem(t *Transport) string {
	d := r.device(t.device)
	switch {
	case !r.Build.Verbs:
		return "this build has no verbs transport"
	case r.Build.Libraries != LibrariesLoaded:
		return "the RDMA libraries cannot be loaded"
	case t.Auto != "verbs" && d == nil:
		return "the address belongs to no RDMA device"
	case t.Auto != "verbs":
		return t.Why
	case d != nil && !slices.ContainsFunc(d.Ports, func(p Port) bool { return p.active() }):
		return "no port of " + d.Name + " is active"
	}
	for _, a := range r.Access {
		if !a.ReadWrite {
			return "this user may not access " + a.Path
		}
	}
	return ""
}

// who describes a holder.
func (h *Holder) who() string {
	switch {
	case h.Kind == holderKernel:
		return "the kernel's rdma_rxe"
	case h.Kind == holderUnknown:
		return "a process of another user, or the kernel's rdma_rxe"
	case h.Program == "":
		return fmt.Sprintf("process %d", h.PID)
	}
	return fmt.Sprintf("process %d (%s)", h.PID, h.Program)
}

func (r *Report) judgeWorks() {
	r.Works = slices.ContainsFunc(r.Transports, func(t Transport) bool { return t.Softroce || t.Verbs })
	if !r.Works {
		r.add(Problem, "no transport works at any address of this machine", "see the problems below")
	}
	for _, t := range r.Transports {
		if t.device != "" && t.Auto != "verbs" && r.Build.Libraries == LibrariesLoaded {
			r.add(Problem, fmt.Sprintf("%v is an address of RDMA device %s, but --transport auto selects %s: %s", t.Address, t.device, t.Auto, brief(t.Why)), "see the findings below")
		}
		if !t.Works && (t.Softroce || t.Verbs) && !t.Address.IsLinkLocalUnicast() {
			other := "softroce"
			if t.Verbs {
				other = "verbs"
			}
			r.add(Problem, fmt.Sprintf("%v: --transport auto selects %s, but %s", t.Address, t.Auto, t.Problem), "use --transport "+other)
		}
	}
}

// brief returns the beginning of an error: what failed, and where.
func brief(s string) string {
	parts := strings.Split(s, ": ")
	return strings.Join(parts[:min(2, len(parts))], ": ")
}

// judgeDevices examines ports and their networks.
func (r *Report) judgeDevices() {
	for i := range r.Devices {
		d := &r.Devices[i]
		for j := range d.Ports {
			r.judgePortState(d, &d.Ports[j])
		}
		if len(d.Ports) > 0 && !d.unused() {
			r.judgeProvider(d)
		}
	}
	for i := range r.Interfaces {
		r.judgeInterface(&r.Interfaces[i])
	}
}

// unused reports whether no port of the device is configured.
func (d *Device) unused() bool {
	return !slices.ContainsFunc(d.Ports, func(p Port) bool { return p.active() })
}

func (r *Report) judgePortState(d *Device, p *Port) {
	name := fmt.Sprintf("%s port %d", d.Name, p.Number)
	severity := Problem
	if slices.ContainsFunc(r.Devices, func(d Device) bool { return !d.unused() }) {
		severity = Note // another port works
	}
	switch {
	case p.active():
		if d.Transport == transportRoCE && !slices.ContainsFunc(p.GIDs, func(g GID) bool { return g.Type == "RoCE v2" }) {
			r.add(Problem, name+" has no GID of type RoCE v2, so no peer can reach it over IP", "give its network interface an IP address: ip addr add ADDR/PREFIX dev "+p.netdev())
		}
	case d.Transport == transportIB && p.State == "INIT":
		r.add(severity, name+" waits for a subnet manager (state INIT)", "start a subnet manager in this network: apt-get install opensm && systemctl start opensm, or the one in the switch")
	case d.Transport == transportIB:
		r.add(severity, fmt.Sprintf("%s is not active (state %s, link %s)", name, p.State, p.PhysicalState), "check the cable and the other end")
	default:
		r.add(severity, fmt.Sprintf("%s is not active (state %s, link %s)", name, p.State, p.PhysicalState), "ip link set "+p.netdev()+" up; then check the cable")
	}
}

// netdev returns the network interface of a port, or a placeholder.
func (p *Port) netdev() string {
	if len(p.Netdevs) == 0 {
		return "INTERFACE"
	}
	return p.Netdevs[0]
}

// judgeProvider finds devices that the kernel has but the libraries do not report.
func (r *Report) judgeProvider(d *Device) {
	if r.Build.Libraries != LibrariesLoaded || d.Limits != nil {
		return
	}
	r.add(Problem, fmt.Sprintf("%s: %s", d.Name, d.LimitsUnknown), "install the providers of libibverbs: apt-get install ibverbs-providers (Fedora: libibverbs); check the access to /dev/infiniband")
}

func (r *Report) judgeInterface(i *Interface) {
	if len(i.RDMA) == 0 || i.State == "down" {
		return
	}
	names := strings.Join(i.RDMA, ", ")
	if !slices.ContainsFunc(i.Addresses, func(p netip.Prefix) bool { return !p.Addr().IsLinkLocalUnicast() }) {
		r.add(Problem, fmt.Sprintf("%s, the network interface of %s, has no IP address, which RDMA connections need", i.Name, names), "ip addr add ADDR/PREFIX dev "+i.Name)
	}
	roce := slices.ContainsFunc(i.RDMA, func(n string) bool { return r.device(n).Transport == transportRoCE })
	if roce && i.PathMTU < 4096 {
		r.add(Note, fmt.Sprintf("MTU %d of %s limits RoCE to a path MTU of %d bytes", i.MTU, i.Name, i.PathMTU),
			fmt.Sprintf("for a path MTU of 4096, on both hosts and all switches between them: ip link set %s mtu %d or more (9000)", i.Name, 4096+roceHeaders))
	}
}
