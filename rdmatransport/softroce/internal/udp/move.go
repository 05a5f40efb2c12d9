package udp

import (
	"errors"
	"fmt"
	"net/netip"
	"os"

	"golang.org/x/sys/unix"
)

// Moved describes the descriptors of a group that moves to another process: the lock of the address, then for each
// port the receive socket and its transmit sockets. Programs attached to the sockets stay attached, and received
// datagrams stay in them.
type Moved struct {
	Transmit int `json:"transmit"` // transmit sockets of each port
	// Overflow is the number of datagrams that each receive socket has lost, as counted by the kernel.
	Overflow []uint32 `json:"overflow"`
}

// Prepare implements Group.
func (g *group) Prepare() error {
	if g.prepared != nil {
		return nil
	}
	fds := []int{g.lock}
	for _, p := range g.ports {
		p := p.(*port)
		fds = append(append(fds, p.recv), p.transmit...)
	}
	var files []*os.File
	for _, fd := range fds {
		dup, err := duplicate(fd)
		if err != nil {
			for _, f := range files {
				f.Close()
			}
			return fmt.Errorf("duplicate a descriptor of %v: %w", g.addr, err)
		}
		files = append(files, os.NewFile(uintptr(dup), "socket of "+g.addr.String()))
	}
	g.prepared = files
	return nil
}

// Move implements Group.
func (g *group) Move() (Moved, []*os.File, error) {
	if err := g.Prepare(); err != nil {
		return Moved{}, nil, err
	}
	out := Moved{Transmit: len(g.ports[0].(*port).transmit)}
	for _, p := range g.ports {
		p := p.(*port)
		out.Overflow = append(out.Overflow, p.overflow)
		p.wait.Forget() // otherwise datagrams for the next owner would wake this one
	}
	files := g.prepared
	g.prepared = nil
	return out, files, nil
}

func duplicate(fd int) (int, error) { return unix.FcntlInt(uintptr(fd), unix.F_DUPFD_CLOEXEC, 3) }

// Adopt continues with the sockets of another group, possibly of another process. The files still belong to the
// caller. Ports receive nothing before Begin.
func Adopt(addr netip.Addr, cfg Config, m Moved, files []*os.File) (Group, error) {
	cfg.setDefaults()
	addr = addr.Unmap()
	cfg.Shards = len(m.Overflow)
	if err := m.check(files); err != nil {
		return nil, err
	}
	zone, err := zoneIndex(addr)
	if err != nil {
		return nil, err
	}
	g := &group{addr: addr, zone: zone, lock: -1}
	if err := g.adopt(&cfg, m, files); err != nil {
		g.Close()
		return nil, err
	}
	g.warnings = g.check(&cfg)
	return g, nil
}

func (m *Moved) check(files []*os.File) error {
	shards := len(m.Overflow)
	if shards < 1 || shards > maxShards || m.Transmit < 1 || m.Transmit > MaxTransmit {
		return fmt.Errorf("%d ports with %d transmit sockets each, want 1 to %d and 1 to %d", shards, m.Transmit, maxShards, MaxTransmit)
	}
	if want := 1 + shards*(1+m.Transmit); len(files) != want {
		return fmt.Errorf("%d descriptors, want %d", len(files), want)
	}
	for _, f := range files {
		if f == nil {
			return errors.New("a descriptor is missing")
		}
	}
	return nil
}

func (g *group) adopt(cfg *Config, m Moved, files []*os.File) (err error) {
	if g.lock, err = g.adoptLock(files[0]); err != nil {
		return err
	}
	files = files[1:]
	for _, overflow := range m.Overflow {
		p, err := adoptPort(g, cfg, files[:1+m.Transmit])
		if err != nil {
			return err
		}
		p.overflow = overflow
		g.ports = append(g.ports, p)
		files = files[1+m.Transmit:]
	}
	return nil
}

// adoptLock takes over the lock of the address. It calls listen(2) again, so that processes that find the lock taken
// see this process's PID.
func (g *group) adoptLock(f *os.File) (int, error) {
	fd, err := duplicate(int(f.Fd()))
	if err != nil {
		return -1, fmt.Errorf("the lock of %v: %w", g.addr, err)
	}
	at, err := unix.Getsockname(fd)
	if name, ok := at.(*unix.SockaddrUnix); err != nil || !ok || name.Name != lockName(g.addr) {
		unix.Close(fd)
		return -1, fmt.Errorf("the first descriptor is not the lock of %v", g.addr)
	}
	if err = unix.Listen(fd, lockBacklog); err != nil {
		unix.Close(fd)
		return -1, fmt.Errorf("lock %v: %w", g.addr, err)
	}
	return fd, nil
}

// adoptPort creates a port from a receive socket and transmit sockets.
func adoptPort(g *group, cfg *Config, files []*os.File) (*port, error) {
	p := &port{group: g, recv: -1, is4: g.addr.Is4(), begins: true}
	err := p.adoptSockets(files)
	if err == nil {
		err = p.configure(cfg)
	}
	if err == nil {
		err = p.wait.Open()
	}
	if err != nil {
		p.close()
		return nil, err
	}
	p.out.init()
	return p, nil
}

func (p *port) adoptSockets(files []*os.File) (err error) {
	var at netip.AddrPort
	if p.recv, at, err = p.adoptSocket(files[0]); err != nil {
		return err
	}
	if at.Port() != roce {
		return fmt.Errorf("a receive socket has port %d, want %d", at.Port(), roce)
	}
	for _, f := range files[1:] {
		fd, at, err := p.adoptSocket(f)
		if err != nil {
			return err
		}
		p.transmit, p.sources = append(p.transmit, fd), append(p.sources, at)
	}
	return nil
}

// adoptSocket duplicates a UDP socket, which must be bound to the group's address.
func (p *port) adoptSocket(f *os.File) (int, netip.AddrPort, error) {
	fd, err := duplicate(int(f.Fd()))
	if err != nil {
		return -1, netip.AddrPort{}, fmt.Errorf("a socket of %v: %w", p.group.addr, err)
	}
	kind, err := unix.GetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_TYPE)
	if err == nil {
		var name unix.Sockaddr
		if name, err = unix.Getsockname(fd); err == nil {
			if at := boundTo(name); kind == unix.SOCK_DGRAM && at.Addr() == p.group.addr.WithZone("") {
				return fd, netip.AddrPortFrom(p.group.addr, at.Port()), nil
			}
		}
	}
	unix.Close(fd)
	if err != nil {
		return -1, netip.AddrPort{}, fmt.Errorf("a descriptor is not a socket of %v: %w", p.group.addr, err)
	}
	return -1, netip.AddrPort{}, fmt.Errorf("a descriptor is not a UDP socket of %v", p.group.addr)
}

// boundTo returns the address of a UDP socket, without zone.
func boundTo(name unix.Sockaddr) netip.AddrPort {
	switch a := name.(type) {
	case *unix.SockaddrInet4:
		return netip.AddrPortFrom(netip.AddrFrom4(a.Addr), uint16(a.Port))
	case *unix.SockaddrInet6:
		return netip.AddrPortFrom(netip.AddrFrom16(a.Addr), uint16(a.Port))
	}
	return netip.AddrPort{}
}

// Begin implements Port.
func (p *port) Begin() error {
	if !p.begins {
		return nil
	}
	p.begins = false
	return p.wait.Quiet(p.recv)
}
