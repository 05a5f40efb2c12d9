//go:build verbs && cgo && linux

package verbs

// #include "shim.h"
import "C"

import (
	"net"
	"net/netip"
	"strconv"
)

// toC returns an address in the shim's format. A zone is an interface's name or index.
func toC(a netip.AddrPort) (out C.struct_nv_addr) {
	ip := a.Addr().Unmap()
	out.family, out.port = 6, C.uint16_t(a.Port())
	if ip.Is4() {
		out.family = 4
	}
	for i, b := range ip.AsSlice() {
		out.ip[i] = C.uint8_t(b)
	}
	if zone := ip.Zone(); zone != "" {
		if i, err := net.InterfaceByName(zone); err == nil {
			out.scope = C.uint32_t(i.Index)
		} else if n, err := strconv.ParseUint(zone, 10, 32); err == nil {
			out.scope = C.uint32_t(n)
		}
	}
	return out
}

// fromC is the inverse of toC. It returns the zero value if there is no address.
func fromC(a *C.struct_nv_addr) netip.AddrPort {
	var ip [16]byte
	for i := range ip {
		ip[i] = byte(a.ip[i])
	}
	addr := netip.AddrFrom16(ip)
	switch {
	case a.family == 4:
		addr = netip.AddrFrom4([4]byte(ip[:4]))
	case a.family != 6:
		return netip.AddrPort{}
	case a.scope != 0:
		zone := strconv.Itoa(int(a.scope))
		if i, err := net.InterfaceByIndex(int(a.scope)); err == nil {
			zone = i.Name
		}
		addr = addr.WithZone(zone)
	}
	return netip.AddrPortFrom(addr, uint16(a.port))
}
