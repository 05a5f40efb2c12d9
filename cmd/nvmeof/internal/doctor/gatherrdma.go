package doctor

import (
	"cmp"
	"fmt"
	"io/fs"
	"net/netip"
	"path"
	"slices"
	"strconv"
)

const classRDMA = "sys/class/infiniband"

// providers maps drivers to the providers of libibverbs. The driver is that of the parent device of the RDMA device,
// which is often the one of its Ethernet part.
var providers = map[string]string{
	"rdma_rxe": "rxe", "siw": "siw", "mlx5_core": "mlx5", "mlx4_core": "mlx4", "ice": "irdma", "i40e": "irdma", "idpf": "irdma",
	"cxgb4": "cxgb4", "bnxt_en": "bnxt_re", "qede": "qedr", "hns3": "hns", "hns_roce": "hns", "efa": "efa", "erdma": "erdma",
	"hfi1": "hfi1verbs", "mana": "mana", "vmw_pvrdma": "vmw_pvrdma", "ib_mthca": "mthca", "be2net": "ocrdma", "ionic": "ionic",
}

// devices reads sysfs, which shows the devices whether or not the program has the verbs transport.
func (g *gatherer) devices() {
	g.facts.Devices = []Device{}
	for _, name := range g.names(classRDMA) {
		d := g.device(name)
		g.facts.Devices = append(g.facts.Devices, d)
	}
}

func (g *gatherer) device(name string) Device {
	dir := path.Join(classRDMA, name)
	d := Device{
		Name: name, NodeType: afterColon(g.text(dir + "/node_type")), Firmware: g.text(dir + "/fw_ver"),
		Board: g.text(dir + "/board_id"), Ports: []Port{},
	}
	d.Driver, d.Software = g.driver(dir)
	d.Provider = providers[d.Driver]
	for _, number := range g.names(dir + "/ports") {
		n, err := strconv.Atoi(number)
		if err == nil {
			d.Ports = append(d.Ports, g.port(path.Join(dir, "ports", number), n))
		}
	}
	slices.SortFunc(d.Ports, func(a, b Port) int { return cmp.Compare(a.Number, b.Number) })
	// The GIDs of InfiniBand and of some iWARP devices name no interface. Use the interfaces of the same hardware.
	if beside := g.names(dir + "/device/net"); !slices.ContainsFunc(d.Ports, func(p Port) bool { return len(p.Netdevs) > 0 }) {
		for i := range d.Ports {
			d.Ports[i].Netdevs = list(beside)
		}
	}
	d.Transport = transportOf(&d)
	return d
}

// driver returns the name of the kernel driver, and whether it is a software one. Software devices have no parent
// device; rxe has its network interface in a file of its own, and siw is recognized by its description.
func (g *gatherer) driver(dir string) (name string, software bool) {
	if target, err := fs.ReadLink(g.Files, dir+"/device/driver"); err == nil {
		return path.Base(target), false
	}
	switch {
	case g.exists(dir + "/parent"):
		return "rdma_rxe", true
	case g.text(dir+"/node_desc") == "Software iWARP stack":
		return "siw", true
	}
	return "", false
}

// transportOf derives the transport from the node type and the link layer, as libibverbs does.
func transportOf(d *Device) string {
	switch {
	case d.NodeType == "RNIC":
		return transportIWARP
	case d.NodeType != "CA" || len(d.Ports) == 0:
		return transportOther
	case d.Ports[0].LinkLayer == "Ethernet":
		return transportRoCE
	}
	return transportIB
}

func (g *gatherer) port(dir string, number int) Port {
	p := Port{
		Number: number, State: afterColon(g.text(dir + "/state")), PhysicalState: afterColon(g.text(dir + "/phys_state")),
		LinkLayer: g.text(dir + "/link_layer"), Rate: g.text(dir + "/rate"), GIDs: []GID{}, Netdevs: []string{},
	}
	for _, name := range g.names(dir + "/gids") {
		index, err := strconv.Atoi(name)
		if err != nil {
			continue
		}
		addr, err := netip.ParseAddr(g.text(dir + "/gids/" + name))
		if err != nil || addr.IsUnspecified() {
			continue
		}
		gid := GID{
			Index: index, Address: addr.Unmap(),
			Type: gidType(g.text(dir+"/gid_attrs/types/"+name), p.LinkLayer), Netdev: g.text(dir + "/gid_attrs/ndevs/" + name),
		}
		p.GIDs = append(p.GIDs, gid)
		if gid.Netdev != "" && !slices.Contains(p.Netdevs, gid.Netdev) {
			p.Netdevs = append(p.Netdevs, gid.Netdev)
		}
	}
	slices.SortFunc(p.GIDs, func(a, b GID) int { return cmp.Compare(a.Index, b.Index) })
	slices.Sort(p.Netdevs)
	return p
}

// gidType resolves the kernel's type "IB/RoCE v1".
func gidType(s, linkLayer string) string {
	switch {
	case s != "IB/RoCE v1":
		return s
	case linkLayer == "Ethernet":
		return "RoCE v1"
	}
	return "IB"
}

// details adds what the devices report through the libraries.
func (g *gatherer) details() {
	why := "this build has no verbs transport"
	var all []Details
	if g.facts.Build.Libraries == LibrariesLoaded {
		var err error
		if all, err = g.Machine.Details(); err != nil {
			why = err.Error()
		} else {
			why = "libibverbs does not show the device"
		}
	} else if g.Verbs {
		why = "the RDMA libraries are not loaded"
	}
	for i := range g.facts.Devices {
		d := &g.facts.Devices[i]
		at := slices.IndexFunc(all, func(x Details) bool { return x.Name == d.Name })
		if at < 0 {
			d.LimitsUnknown = why
			continue
		}
		if err := all[at].Err; err != nil {
			d.LimitsUnknown = err.Error()
			continue
		}
		limits := all[at].Limits
		d.Limits = &limits
		for j := range d.Ports {
			if n := d.Ports[j].Number; n >= 1 && n <= len(all[at].ActiveMTU) {
				d.Ports[j].ActiveMTU = all[at].ActiveMTU[n-1]
			}
		}
	}
}

// describe describes a device in a few words.
func (d *Device) describe() string {
	driver := d.Driver
	if driver == "" {
		driver = "driver not known"
	}
	if d.Software {
		driver += " (software)"
	}
	return fmt.Sprintf("%s, %s", d.Transport, driver)
}
