package doctor

import (
	"io/fs"
	"path"
	"slices"
	"strings"
)

const (
	capSysRawIO = 17 // capabilities(7)
	capSysAdmin = 21

	conffile   = "etc/nvmeof/target.yaml"
	unitPrefix = "nvmeof-"
)

// installed gathers facts about the installation.
func (g *gatherer) installed() {
	i := &g.facts.Installed
	i.How, i.Program, i.Example, i.Network = installedBinary, g.Program, exampleAbsent, networkMachine
	i.Package, i.Version = g.pkg()
	switch {
	case g.any(".dockerenv", "run/.containerenv", "dev/termination-log"):
		i.How = installedContainer
		i.Network = g.network()
	case i.Package != "":
		i.How = installedPackage
	}
	if g.exists(conffile) {
		i.Example = g.example()
		i.Ceph = slices.ContainsFunc(g.lines(conffile), namesCeph)
	}
	i.Units = g.units()
	bits := g.capabilities()
	i.Capabilities = []string{}
	for _, c := range capabilities {
		if bits>>c.bit&1 != 0 {
			i.Capabilities = append(i.Capabilities, c.name)
		}
	}
}

// capabilities are those that the program can use.
var capabilities = []struct {
	bit  int
	name string
}{{capNetAdmin, "CAP_NET_ADMIN"}, {capIPCLock, "CAP_IPC_LOCK"}, {capSysRawIO, "CAP_SYS_RAWIO"}, {capSysAdmin, "CAP_SYS_ADMIN"}}

// pkg returns the dpkg package that contains the program, and its version.
func (g *gatherer) pkg() (name, version string) {
	if g.Program != "/usr/bin/nvmeof" || !g.any("var/lib/dpkg/info/nvmeof*.list") {
		return "", ""
	}
	stanza := map[string]string{}
	for _, line := range append(g.lines("var/lib/dpkg/status"), "") {
		if line != "" {
			key, value, _ := strings.Cut(line, ": ")
			stanza[key] = value
			continue
		}
		if n := stanza["Package"]; (n == "nvmeof" || n == "nvmeof-verbs") && strings.HasSuffix(stanza["Status"], " installed") {
			return n, stanza["Version"]
		}
		clear(stanza)
	}
	return "", ""
}

// network returns whose network a container has. In a network of its own every interface is one end of a pair whose
// other end is elsewhere.
func (g *gatherer) network() string {
	for _, name := range g.names("sys/class/net") {
		dir := path.Join("sys/class/net", name)
		if name != "lo" && g.number(dir+"/iflink", -1) == g.number(dir+"/ifindex", -2) {
			return networkMachine
		}
	}
	return networkOwn
}

// example reports whether the configuration is still the file of the package.
func (g *gatherer) example() string {
	is, err := fs.ReadFile(g.Files, conffile)
	g.refused(conffile, err)
	if err != nil {
		return exampleUnknown
	}
	for _, pkg := range []string{"nvmeof", "nvmeof-verbs"} {
		was, err := fs.ReadFile(g.Files, "usr/share/doc/"+pkg+"/examples/target.yaml")
		if err == nil && slices.Equal(is, was) {
			return exampleSame
		}
	}
	return exampleChanged
}

// namesCeph reports whether a line of a configuration, which may be invalid, names an image or the group's state in a
// Ceph cluster.
func namesCeph(line string) bool {
	setting, _, _ := strings.Cut(strings.TrimSpace(line), "#")
	return strings.Contains(setting, "rbd:") || strings.Contains(setting, "rados://")
}

// units returns the target's unit, if it exists, and the instances of other units that run or are enabled.
func (g *gatherer) units() []Unit {
	all := map[string]*Unit{}
	unit := func(file string) *Unit {
		name := path.Base(file)
		if all[name] == nil {
			all[name] = &Unit{Name: name}
		}
		return all[name]
	}
	each := func(f func(file string), patterns ...string) {
		for _, p := range patterns {
			found, _ := fs.Glob(g.Files, p)
			for _, file := range found {
				f(file)
			}
		}
	}
	each(func(file string) { unit(file) }, "etc/systemd/system/nvmeof-target.service", "usr/lib/systemd/system/nvmeof-target.service")
	each(func(file string) { unit(file).Enabled = true }, "etc/systemd/system/*.wants/"+unitPrefix+"*.service")
	// The cgroup of a unit exists while the unit runs.
	each(func(file string) {
		u := unit(file)
		u.Running = true
		for _, pid := range g.lines(file + "/cgroup.procs") {
			if program, err := fs.ReadLink(g.Files, path.Join("proc", path.Base(pid), "exe")); err == nil && strings.HasSuffix(program, "/nvmeof (deleted)") {
				u.Replaced = true
			}
		}
	}, "sys/fs/cgroup/system.slice/"+unitPrefix+"*.service", "sys/fs/cgroup/system.slice/system-nvmeof*.slice/"+unitPrefix+"*.service")
	units := []Unit{}
	for _, u := range all {
		units = append(units, *u)
	}
	slices.SortFunc(units, func(a, b Unit) int { return strings.Compare(a.Name, b.Name) })
	return units
}
