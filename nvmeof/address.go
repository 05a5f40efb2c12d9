package nvmeof

import (
	"fmt"
	"net/netip"
	"strconv"
	"strings"
)

// DefaultPort is the port that IANA assigned to NVMe over RDMA. Discovery uses it too.
const DefaultPort = 4420

// ParseAddress parses a transport address and a service identifier. The address is an IP address; brackets around
// an IPv6 address are optional. The service identifier is a port from 1 to 65535, or "" for [DefaultPort].
func ParseAddress(traddr, trsvcid string) (netip.AddrPort, error) {
	text := strings.TrimSpace(traddr)
	if inner, ok := strings.CutPrefix(text, "["); ok {
		if text, ok = strings.CutSuffix(inner, "]"); !ok {
			return netip.AddrPort{}, fmt.Errorf("transport address %s: bracket is not closed", Printable(traddr))
		}
	}
	addr, err := netip.ParseAddr(text)
	if err != nil {
		return netip.AddrPort{}, fmt.Errorf("transport address %s is no IP address", Printable(traddr))
	}
	if !isZone(addr.Zone()) {
		return netip.AddrPort{}, fmt.Errorf("transport address %s: what follows %% is no interface", Printable(traddr))
	}
	port, err := parsePort(trsvcid)
	if err != nil {
		return netip.AddrPort{}, err
	}
	return netip.AddrPortFrom(addr.Unmap(), port), nil
}

// isZone reports whether s can be the name or the index of an interface. [netip.ParseAddr] accepts any text as the
// zone of an address (RFC 4007, 11.2). Linux limits interface names to 15 bytes, without spaces or slashes.
// Addresses also come from discovery logs, and are printed.
func isZone(s string) bool {
	return len(s) <= 15 && !strings.Contains(s, "/") && strings.IndexFunc(s, odd) < 0
}

func parsePort(s string) (uint16, error) {
	s = strings.TrimSpace(s)
	if s == "" {
		return DefaultPort, nil
	}
	n, err := strconv.ParseUint(s, 10, 16)
	if err != nil || n == 0 {
		return 0, fmt.Errorf("transport service identifier %s is no port (1 to 65535)", Printable(s))
	}
	return uint16(n), nil
}

// ParseListen parses an address with an optional port: "192.0.2.1", "192.0.2.1:4420", "2001:db8::1" or
// "[2001:db8::1]:4420".
func ParseListen(s string) (netip.AddrPort, error) {
	host, port := strings.TrimSpace(s), ""
	switch end := strings.LastIndexByte(host, ']'); {
	case end >= 0:
		rest := host[end+1:]
		if rest != "" && (rest[0] != ':' || len(rest) == 1) {
			return netip.AddrPort{}, fmt.Errorf("address %s: want ADDRESS or ADDRESS:PORT", Printable(s))
		}
		host, port = host[:end+1], strings.TrimPrefix(rest, ":")
	case strings.Count(host, ":") == 1:
		var ok bool
		if host, port, ok = strings.Cut(host, ":"); ok && port == "" {
			return netip.AddrPort{}, fmt.Errorf("address %s: port is missing", Printable(s))
		}
	}
	return ParseAddress(host, port)
}
