package doctor

import (
	"path"
	"slices"
	"strconv"
	"strings"
)

const (
	// socketBuffer is the size that softroce requests for each receive socket; the kernel doubles it.
	socketBuffer = 8 << 20
	// arenas is the memory that each shard registers with the device: target.Config.Arena, and 4 MiB for hosts that
	// are not identified yet and for discovery.
	arenas = (64 + 4) << 20
	// zeroes is the memory that all shards of a device register together in addition.
	zeroes = 1 << 20
	// maxShards is the maximum of the default of target --shards.
	maxShards = 64

	capNetAdmin = 12 // capabilities(7)
	capIPCLock  = 14
)

// limits gathers the limits that the kernel sets for this process.
func (g *gatherer) limits() {
	capabilities := g.capabilities()
	m := &g.facts.Memory
	m.Soft, m.Hard = g.memlock()
	m.Exempt = capabilities>>capIPCLock&1 != 0
	m.Wanted = zeroes + arenas*int64(max(1, min(g.Processors/2, maxShards)))

	s := &g.facts.Sockets
	s.RmemMax, s.WmemMax = g.number("proc/sys/net/core/rmem_max", 0), g.number("proc/sys/net/core/wmem_max", 0)
	s.Exempt = capabilities>>capNetAdmin&1 != 0
	s.Wanted, s.ReceiveBuffer = 2*socketBuffer, 2*min(socketBuffer, s.RmemMax)
	if s.Exempt {
		s.ReceiveBuffer = s.Wanted // SO_RCVBUFFORCE
	}
}

// capabilities returns the effective capabilities of this process.
func (g *gatherer) capabilities() uint64 {
	for _, line := range g.lines("proc/self/status") {
		if s, ok := strings.CutPrefix(line, "CapEff:"); ok {
			n, _ := strconv.ParseUint(strings.TrimSpace(s), 16, 64)
			return n
		}
	}
	return 0
}

// memlock returns the soft and the hard limit on locked memory.
func (g *gatherer) memlock() (soft, hard int64) {
	number := func(s string) int64 {
		if s == "unlimited" {
			return -1
		}
		n, _ := strconv.ParseInt(s, 10, 64)
		return n
	}
	for _, line := range g.lines("proc/self/limits") {
		if s, ok := strings.CutPrefix(line, "Max locked memory"); ok {
			if f := strings.Fields(s); len(f) >= 2 {
				return number(f[0]), number(f[1])
			}
		}
	}
	return 0, 0
}

// modules are those that a host or a target of NVMe over RDMA may need.
var modules = []string{"ib_core", "ib_uverbs", "rdma_cm", "rdma_ucm", "rdma_rxe", "siw", "nvme_rdma", "nvmet_rdma"}

// kernel gathers facts about modules, device nodes and io_uring.
func (g *gatherer) kernel() {
	g.facts.release = g.text("proc/sys/kernel/osrelease")
	g.facts.Modules = g.modules()
	g.facts.Access = []Access{}
	for _, name := range g.names("dev/infiniband") {
		if name == "rdma_cm" || strings.HasPrefix(name, "uverbs") {
			p := "/dev/infiniband/" + name
			g.facts.Access = append(g.facts.Access, Access{p, g.Machine.Access(p)})
		}
	}
	u := &g.facts.IOUring
	u.Disabled = int(g.number("proc/sys/kernel/io_uring_disabled", -1))
	err := g.Machine.IOUring()
	u.Works = err == nil
	if err != nil {
		u.Detail = err.Error()
	}
}

func (g *gatherer) modules() []Module {
	dir := path.Join("lib/modules", g.facts.release)
	known := g.exists(path.Join(dir, "modules.dep"))
	files := moduleNames(g.lines(path.Join(dir, "modules.dep")))
	builtIn := moduleNames(g.lines(path.Join(dir, "modules.builtin")))
	all := make([]Module, 0, len(modules))
	for _, name := range modules {
		state := moduleAbsent
		switch {
		case slices.Contains(builtIn, name):
			state = moduleBuiltIn
		case g.exists("sys/module/" + name):
			state = moduleLoaded
		case slices.Contains(files, name):
			state = moduleAvailable
		case !known:
			state = moduleUnknown
		}
		all = append(all, Module{name, state})
	}
	return all
}

// moduleNames returns the module names, in the kernel's spelling, of the files at the beginning of lines of
// modules.dep.
func moduleNames(lines []string) (names []string) {
	for _, line := range lines {
		file, _, _ := strings.Cut(line, ":")
		name, _, _ := strings.Cut(path.Base(file), ".")
		names = append(names, strings.ReplaceAll(name, "-", "_"))
	}
	return names
}
