package doctor

import (
	"encoding/binary"
	"encoding/hex"
	"io/fs"
	"net/netip"
	"path"
	"slices"
	"strconv"
	"strings"
)

// roceHeaders is the space for RoCE's headers that Linux, and softroce too, subtract to compute a path MTU.
const roceHeaders = 96

// pathMTU returns the maximum payload of a RoCE packet on an interface: a power of two from 256 to 4096, or 0 if the
// interface's MTU is too small.
func pathMTU(mtu int) int {
	for n := 4096; n >= 256; n /= 2 {
		if mtu-roceHeaders >= n {
			return n
		}
	}
	return 0
}

func (g *gatherer) interfaces() {
	g.facts.Interfaces = []Interface{}
	for _, name := range g.names("sys/class/net") {
		dir := path.Join("sys/class/net", name)
		mtu := int(g.number(dir+"/mtu", 0))
		if mtu == 0 { // not an interface: bonding_masters is a file
			continue
		}
		i := Interface{Name: name, State: g.text(dir + "/operstate"), MTU: mtu, PathMTU: pathMTU(mtu), RDMA: []string{}, Addresses: []netip.Prefix{}}
		for _, d := range g.facts.Devices {
			if d.has(name) {
				i.RDMA = append(i.RDMA, d.Name)
			}
		}
		for _, a := range g.Addresses {
			if a.Interface == name {
				i.Addresses = append(i.Addresses, a.Prefix)
				transport, why := g.Choose(zoned(a))
				i.choices = append(i.choices, choice{transport, why})
			}
		}
		g.facts.Interfaces = append(g.facts.Interfaces, i)
	}
}

// zoned returns an address with its zone, if it needs one.
func zoned(a Address) netip.Addr {
	addr := a.Prefix.Addr()
	if addr.IsLinkLocalUnicast() && addr.Is6() {
		return addr.WithZone(a.Interface)
	}
	return addr
}

// has reports whether a port of the device has a GID of a network interface.
func (d *Device) has(netdev string) bool {
	return slices.ContainsFunc(d.Ports, func(p Port) bool { return slices.Contains(p.Netdevs, netdev) })
}

const rocePort = ":12B7" // 4791 as in /proc/net/udp

// A socket is a line of /proc/net/udp.
type socket struct {
	addr  netip.Addr
	inode string
	uid   string
}

// rocePort finds the users of UDP port 4791.
func (g *gatherer) rocePort() {
	g.facts.RoCEPort = []Holder{}
	sockets := slices.Concat(sockets(g.lines("proc/net/udp")), sockets(g.lines("proc/net/udp6")))
	if len(sockets) == 0 {
		return
	}
	owners, complete := g.owners(sockets)
	for _, s := range sockets {
		h := Holder{Address: s.addr, Kind: holderUnknown}
		pid, owned := owners[s.inode]
		switch {
		case owned:
			h.Kind, h.PID, h.Program = holderProcess, pid, g.text("proc/"+strconv.Itoa(pid)+"/comm")
		case complete || s.uid == "0" && s.addr.IsUnspecified() && g.exists("sys/module/rdma_rxe"):
			h.Kind = holderKernel // its sockets belong to no process
		}
		if !slices.Contains(g.facts.RoCEPort, h) {
			g.facts.RoCEPort = append(g.facts.RoCEPort, h)
		}
	}
}

// sockets parses the lines about port 4791.
func sockets(lines []string) (all []socket) {
	for _, line := range lines {
		f := strings.Fields(line)
		if len(f) < 10 || !strings.HasSuffix(f[1], rocePort) {
			continue
		}
		if addr, ok := procAddr(strings.TrimSuffix(f[1], rocePort)); ok {
			all = append(all, socket{addr, f[9], f[7]})
		}
	}
	return all
}

// procAddr parses an address of 32-bit words, each in the processor's byte order.
func procAddr(s string) (netip.Addr, bool) {
	b, err := hex.DecodeString(s)
	if err != nil || len(b)%4 != 0 {
		return netip.Addr{}, false
	}
	for i := 0; i < len(b); i += 4 {
		binary.NativeEndian.PutUint32(b[i:], binary.BigEndian.Uint32(b[i:]))
	}
	return netip.AddrFromSlice(b)
}

// owners returns the processes that own sockets, by inode, and whether all processes could be examined.
func (g *gatherer) owners(sockets []socket) (pids map[string]int, complete bool) {
	pids, complete = map[string]int{}, true
	for _, name := range g.names("proc") {
		pid, err := strconv.Atoi(name)
		if err != nil {
			continue
		}
		dir := path.Join("proc", name, "fd")
		entries, err := fs.ReadDir(g.Files, dir)
		if err != nil && g.exists(path.Join("proc", name)) {
			complete = false
		}
		for _, e := range entries {
			target, _ := fs.ReadLink(g.Files, path.Join(dir, e.Name()))
			for _, s := range sockets {
				if target == "socket:["+s.inode+"]" {
					pids[s.inode] = pid
				}
			}
		}
	}
	if !complete {
		g.unread = append(g.unread, "/proc/*/fd of other users' processes: permission denied")
	}
	return pids, complete
}
