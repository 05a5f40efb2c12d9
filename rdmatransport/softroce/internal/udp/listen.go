package udp

import (
	"fmt"
	"net"
	"net/netip"
	"os"
	"strconv"

	"golang.org/x/sys/unix"
)

// roce is the UDP port of RoCEv2 (IBTA A17.2).
const roce = 4791

// group holds the sockets of one address.
type group struct {
	addr     netip.Addr
	zone     uint32 // index of addr's interface, if link-local
	ports    []Port
	warnings []string
	lock     int // descriptor of the address's lock; -1 once closed
	prepared []*os.File
}

// Listen opens the sockets of an address. It needs no privilege. It fails with an [*InUseError] if the address is in
// use in this network namespace, and with an error that says so if the kernel's rdma_rxe holds the port.
func Listen(addr netip.Addr, cfg Config) (Group, error) {
	cfg.setDefaults()
	addr = addr.Unmap()
	switch {
	case !addr.IsValid() || addr.IsUnspecified() || addr.IsMulticast():
		return nil, fmt.Errorf("%v is not the address of an interface", addr)
	case cfg.Shards < 0 || cfg.Shards > maxShards:
		return nil, fmt.Errorf("%d shards, want 1 to %d", cfg.Shards, maxShards)
	case cfg.Transmit < 0 || cfg.Transmit > MaxTransmit:
		return nil, fmt.Errorf("%d transmit sockets, want 1 to %d", cfg.Transmit, MaxTransmit)
	}
	zone, err := zoneIndex(addr)
	if err != nil {
		return nil, err
	}
	lock, err := lockAddress(addr)
	if err != nil {
		return nil, err
	}
	g := &group{addr: addr, zone: zone, lock: lock}
	if err := g.open(&cfg); err != nil {
		g.Close()
		return nil, err
	}
	g.warnings = g.check(&cfg)
	return g, nil
}

// open opens the ports in the order in which the steering program counts them.
func (g *group) open(cfg *Config) error {
	for range cfg.Shards {
		p, err := openPort(g, cfg)
		if err != nil {
			return err
		}
		g.ports = append(g.ports, p)
	}
	if cfg.Shards == 1 {
		return nil
	}
	if err := steer(g.ports[0].(*port).recv, cfg.Shards); err != nil {
		return fmt.Errorf("steer datagrams by queue pair: %w", err)
	}
	return nil
}

// check compares the obtained settings with the requested ones.
func (g *group) check(cfg *Config) (warnings []string) {
	p := g.ports[0].(*port)
	if got, want := p.stats.ReceiveBuffer, 2*cfg.ReceiveBuffer; got < want {
		warnings = append(warnings, fmt.Sprintf(
			"the receive buffer holds %d bytes instead of %d, which limits how much can be in flight: sysctl -w net.core.rmem_max=%d, which the kernel doubles",
			got, want, cfg.ReceiveBuffer))
	}
	if !p.gso && !cfg.NoGSO {
		warnings = append(warnings, "this kernel cannot segment UDP sends (UDP_SEGMENT, Linux 4.18): every packet is sent alone")
	}
	if !p.gro && !cfg.NoGRO {
		warnings = append(warnings, "this kernel cannot merge received UDP packets (UDP_GRO, Linux 5.0): every packet is received alone")
	}
	return warnings
}

func (g *group) Addr() netip.Addr   { return g.addr }
func (g *group) Ports() []Port      { return g.ports }
func (g *group) Warnings() []string { return g.warnings }

func (g *group) Close() error {
	for _, p := range g.ports {
		p.(*port).close()
	}
	for _, f := range g.prepared {
		f.Close()
	}
	g.prepared = nil
	if g.lock < 0 {
		return nil
	}
	fd := g.lock
	g.lock = -1
	return unix.Close(fd)
}

// zoneIndex returns the index of the interface of a link-local address.
func zoneIndex(addr netip.Addr) (uint32, error) {
	zone := addr.Zone()
	if zone == "" {
		if addr.Is6() && addr.IsLinkLocalUnicast() {
			return 0, fmt.Errorf("%v is link-local: name its interface, as in %v%%eth0", addr, addr)
		}
		return 0, nil
	}
	if n, err := strconv.ParseUint(zone, 10, 32); err == nil {
		return uint32(n), nil
	}
	i, err := net.InterfaceByName(zone)
	if err != nil {
		return 0, fmt.Errorf("interface of %v: %w", addr, err)
	}
	return uint32(i.Index), nil
}
