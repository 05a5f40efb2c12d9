package doctor

import (
	"encoding/json"
	"fmt"
	"io"
	"strings"
	"text/tabwriter"

	"github.com/nvmeof-go/nvmeof/nvmeof"
)

// JSON prints a report as JSON; the package comment explains the keys.
func JSON(w io.Writer, r *Report) error {
	e := json.NewEncoder(w)
	e.SetIndent("", "  ")
	e.SetEscapeHTML(false)
	return e.Encode(r)
}

// Text prints a report for people.
func Text(w io.Writer, r *Report) error {
	p := &printer{tabs: tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)}
	p.program(r)
	p.devices(r)
	p.interfaces(r)
	p.system(r)
	p.transports(r)
	p.installed(r)
	p.findings(r)
	if err := p.tabs.Flush(); p.err == nil {
		p.err = err
	}
	return p.err
}

// A printer records the first error.
type printer struct {
	tabs *tabwriter.Writer
	err  error
}

func (p *printer) line(format string, args ...any) {
	for i, a := range args { // file names may contain any characters
		switch a := a.(type) {
		case string:
			args[i] = nvmeof.Visible(a)
		case fmt.Stringer:
			args[i] = nvmeof.Visible(a.String())
		}
	}
	if _, err := fmt.Fprintf(p.tabs, format+"\n", args...); p.err == nil {
		p.err = err
	}
}

// section starts a section, which has columns of its own.
func (p *printer) section(title string) {
	p.line("")
	if err := p.tabs.Flush(); p.err == nil {
		p.err = err
	}
	p.line("%s", title)
}

func (p *printer) program(r *Report) {
	verbs := "softroce, verbs"
	if !r.Build.Verbs {
		verbs = "softroce (built without verbs)"
	}
	p.line("transports of this program: %s", verbs)
	p.line("RDMA libraries: %s", r.Build.Libraries)
	ceph := "librbd and librados " + string(r.Build.CephLibraries)
	if !r.Build.Ceph {
		ceph = "built without rbd"
	}
	p.line("Ceph images and groups: %s", ceph)
}

func (p *printer) devices(r *Report) {
	p.section("RDMA devices")
	if len(r.Devices) == 0 {
		p.line("  none")
	}
	for i := range r.Devices {
		d := &r.Devices[i]
		p.line("  %s: %s, node type %s, firmware %s", d.Name, d.describe(), orDash(d.NodeType), orDash(d.Firmware))
		if l := d.Limits; l != nil {
			p.line("    limits: %d queue pairs of %d requests, %d memory regions of %s, %d shared receive queues", l.QueuePairs, l.QueueDepth, l.Regions, regionSize(l.RegionBytes), l.SharedQueues)
			p.line("    per queue pair: %d RDMA READs in (IRD), %d out (ORD); %d memory windows", l.ReadsIn, l.ReadsOut, l.MemoryWindows)
		} else {
			p.line("    limits: not known: %s", d.LimitsUnknown)
		}
		for j := range d.Ports {
			p.port(&d.Ports[j])
		}
	}
}

func (p *printer) port(port *Port) {
	mtu := "active MTU not known"
	if port.ActiveMTU > 0 {
		mtu = fmt.Sprintf("active MTU %d", port.ActiveMTU)
	}
	p.line("    port %d: %s, %s, %s, %s", port.Number, port.State, port.LinkLayer, mtu, orDash(port.Rate))
	for _, g := range port.GIDs {
		p.line("      GID %d\t%s\t%v\t%s", g.Index, orDash(g.Type), g.Address, orDash(g.Netdev))
	}
}

func (p *printer) interfaces(r *Report) {
	p.section("network interfaces")
	for _, i := range r.Interfaces {
		var addresses []string
		for _, a := range i.Addresses {
			addresses = append(addresses, a.String())
		}
		p.line("  %s\t%s\tMTU %d\tRoCE path MTU %d\t%s\t%s", i.Name, i.State, i.MTU, i.PathMTU,
			orDash(strings.Join(i.RDMA, " ")), orDash(strings.Join(addresses, " ")))
	}
}

func (p *printer) system(r *Report) {
	p.section("this process and this kernel")
	for _, h := range r.RoCEPort {
		p.line("  UDP port 4791\tin use at %v by %s", h.Address, h.who())
	}
	if len(r.RoCEPort) == 0 {
		p.line("  UDP port 4791\tfree")
	}
	m, s := &r.Memory, &r.Sockets
	p.line("  locked memory\t%s (hard limit %s)%s; a target with --transport verbs needs %s", size(m.Soft), size(m.Hard), exempt(m.Exempt && m.Soft >= 0, "CAP_IPC_LOCK"), size(m.Wanted))
	p.line("  socket buffers\trmem_max %s, wmem_max %s%s; softroce's receive buffers: %s of %s wanted", size(s.RmemMax), size(s.WmemMax), exempt(s.Exempt, "CAP_NET_ADMIN"), size(s.ReceiveBuffer), size(s.Wanted))
	var states []string
	for _, m := range r.Modules {
		states = append(states, m.Name+" "+m.State)
	}
	p.line("  modules\t%s", strings.Join(states, ", "))
	for _, a := range r.Access {
		can := "accessible"
		if !a.ReadWrite {
			can = "NOT accessible"
		}
		p.line("  %s\t%s", a.Path, can)
	}
	uring := "works"
	if !r.IOUring.Works {
		uring = "does NOT work: " + r.IOUring.Detail
	}
	p.line("  io_uring\t%s", uring)
}

func (p *printer) transports(r *Report) {
	p.section("what --transport auto selects")
	for _, t := range r.Transports {
		works := "works"
		if !t.Works {
			works = "does NOT work: " + t.Problem
		}
		p.line("  %v\t%s\t%s\t%s", t.Address, t.Auto, works, brief(t.Why))
	}
	if len(r.Transports) == 0 {
		p.line("  nothing: this machine has no address")
	}
}

func (p *printer) installed(r *Report) {
	p.section("installation")
	i := &r.Installed
	switch i.How {
	case installedPackage:
		p.line("  %s\tfrom package %s, version %s", i.Program, i.Package, i.Version)
	case installedContainer:
		whose := "the machine's network"
		if i.Network == networkOwn {
			whose = "its own network"
		}
		p.line("  %s\tin a container, with %s", i.Program, whose)
	default:
		p.line("  %s\tnot from a package", orDash(i.Program))
	}
	p.line("  capabilities\t%s; needed only for RDMA devices and the health of drives", orDash(strings.Join(i.Capabilities, " ")))
	if i.Example != exampleAbsent {
		p.line("  /%s\t%s", conffile, map[string]string{exampleSame: "the example", exampleChanged: "not the example", exampleUnknown: "not readable"}[i.Example])
	}
	for _, u := range i.Units {
		running, enabled := "does not run", "not enabled"
		if u.Running {
			running = "runs"
		}
		if u.Enabled {
			enabled = "enabled"
		}
		p.line("  %s\t%s, %s", u.Name, running, enabled)
	}
}

func (p *printer) findings(r *Report) {
	p.section("findings")
	for _, f := range r.Findings {
		p.line("%s: %s; fix: %s", f.Severity, f.What, f.Mend)
	}
	for _, u := range r.Unread {
		p.line("not read: %s", u)
	}
	if len(r.Findings) == 0 {
		p.line("nothing to fix")
	}
}

func regionSize(n uint64) string {
	if n >= 1<<60 {
		return "any size"
	}
	return "up to " + size(int64(n))
}

func exempt(is bool, capability string) string {
	if is {
		return ", ignored with " + capability
	}
	return ""
}

func orDash(s string) string {
	if s == "" {
		return "-"
	}
	return s
}
