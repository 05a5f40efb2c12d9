package udp

import (
	"fmt"
	"net"
	"net/netip"
	"os"

	"golang.org/x/sys/unix"

	"github.com/nvmeof-go/nvmeof/rdmatransport"
	"github.com/nvmeof-go/nvmeof/rdmatransport/internal/numa"
)

// MTU implements Group.
func (g *group) MTU(dst netip.Addr) (int, error) {
	near, _ := interfaceOf(g.addr)
	device := near.MTU
	if dst.IsValid() {
		n, err := g.routeMTU(dst.Unmap())
		if err != nil {
			return 0, err
		}
		if device != 0 {
			n = min(n, device)
		}
		// Packets between two addresses of this machine take the loopback interface, but packets to the other address
		// also pass through its own interface.
		if own, exact := interfaceOf(dst.Unmap()); exact {
			n = min(n, own.MTU)
		}
		return n, nil
	}
	if device == 0 {
		return 0, fmt.Errorf("no interface has address %v", g.addr)
	}
	return device, nil
}

// routeMTU asks the kernel by connecting a socket, which sends nothing.
func (g *group) routeMTU(dst netip.Addr) (int, error) {
	if dst.Is4() != g.addr.Is4() {
		return 0, fmt.Errorf("%v and %v are of different address families", g.addr, dst)
	}
	fd, err := unix.Socket(family(dst), unix.SOCK_DGRAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return 0, fmt.Errorf("path MTU from %v to %v: %w", g.addr, dst, err)
	}
	defer unix.Close(fd)
	if err = unix.Bind(fd, sockaddr(netip.AddrPortFrom(g.addr, 0), g.zone)); err == nil {
		err = unix.Connect(fd, sockaddr(netip.AddrPortFrom(dst, roce), g.zone))
	}
	if err != nil {
		return 0, fmt.Errorf("no route from %v to %v: %w", g.addr, dst, err)
	}
	if dst.Is4() {
		return unix.GetsockoptInt(fd, unix.IPPROTO_IP, unix.IP_MTU)
	}
	return unix.GetsockoptInt(fd, unix.IPPROTO_IPV6, unix.IPV6_MTU)
}

// Node implements Group.
func (g *group) Node() rdmatransport.NUMANode {
	if i, _ := interfaceOf(g.addr); i.Name != "" {
		return numa.OfInterface(os.DirFS("/sys"), i.Name)
	}
	return 0
}

// interfaceOf returns the interface that has the address, or else one whose network contains it (127.0.0.2 is not
// listed anywhere), or a zero Interface. exact reports the first case.
func interfaceOf(addr netip.Addr) (near net.Interface, exact bool) {
	interfaces, err := net.Interfaces()
	if err != nil {
		return near, false
	}
	for _, i := range interfaces {
		addrs, _ := i.Addrs()
		for _, a := range addrs {
			prefix, err := netip.ParsePrefix(a.String())
			if err != nil {
				continue
			}
			if prefix.Addr().Unmap() == addr.WithZone("") && (addr.Zone() == "" || addr.Zone() == i.Name) {
				return i, true
			}
			if near.Name == "" && prefix.Contains(addr) {
				near = i
			}
		}
	}
	return near, false
}
