package udp

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"net/netip"

	"golang.org/x/sys/unix"
)

// roce is the UDP port of RoCEv2 (IBTA A17.2).
const roce = 4791

// group is the sockets of one address.
type group struct {
	addr  netip.Addr
	ports []Port
	lock  int // descriptor of the address's lock
}

// Listen opens the sockets of an address. It fails if another process of this
// network namespace has it, naming the process, or if the kernel's rdma_rxe
// holds the port.
func Listen(addr netip.Addr, cfg Config) (Group, error) {
	cfg.setDefaults()
	addr = addr.Unmap()
	if !addr.IsValid() || addr.IsUnspecified() || addr.IsMulticast() {
		return nil, fmt.Errorf("%v is not the address of an interface", addr)
	}
	lock, err := lockAddress(addr)
	if err != nil {
		return nil, err
	}
	g := &group{addr: addr, lock: lock}
	for range cfg.Shards {
		p, err := openPort(addr, &cfg)
		if err != nil {
			g.Close()
			return nil, err
		}
		g.ports = append(g.ports, p)
	}
	if err := steer(g.ports[0].(*port).recv, cfg.Shards); err != nil {
		g.Close()
		return nil, fmt.Errorf("steer datagrams by queue pair: %w", err)
	}
	return g, nil
}

func (g *group) Addr() netip.Addr { return g.addr }
func (g *group) Ports() []Port    { return g.ports }

func (g *group) Close() error {
	for _, p := range g.ports {
		p.(*port).close()
	}
	g.ports = nil
	return unix.Close(g.lock)
}

// lockAddress makes sure that no second process joins the reuse-port group of an
// address: it owns an abstract unix socket, which lives in the network namespace
// and dies with the process.
func lockAddress(addr netip.Addr) (int, error) {
	fd, err := unix.Socket(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return -1, fmt.Errorf("lock %v: %w", addr, err)
	}
	name := &unix.SockaddrUnix{Name: "@nvmeof/roce/" + addr.String()}
	if err = unix.Bind(fd, name); err == nil {
		err = unix.Listen(fd, 1)
	}
	if err == nil {
		return fd, nil
	}
	defer unix.Close(fd)
	if !errors.Is(err, unix.EADDRINUSE) {
		return -1, fmt.Errorf("lock %v: %w", addr, err)
	}
	owner := "another process"
	if unix.Connect(fd, name) == nil {
		if c, err := unix.GetsockoptUcred(fd, unix.SOL_SOCKET, unix.SO_PEERCRED); err == nil {
			owner = fmt.Sprintf("process %d", c.Pid)
		}
	}
	return -1, fmt.Errorf("%s already is the RoCEv2 endpoint of %v: stop it, or use another address of this machine (--host-traddr for a host)", owner, addr)
}

func family(addr netip.Addr) int {
	if addr.Is4() {
		return unix.AF_INET
	}
	return unix.AF_INET6
}

func sockaddr(ap netip.AddrPort) unix.Sockaddr {
	if ap.Addr().Is4() {
		return &unix.SockaddrInet4{Port: int(ap.Port()), Addr: ap.Addr().As4()}
	}
	return &unix.SockaddrInet6{Port: int(ap.Port()), Addr: ap.Addr().As16()}
}

// openSocket makes a bound socket whose datagrams are never fragmented and have
// a known IPv4 identification.
func openSocket(at netip.AddrPort, cfg *Config, reuse bool) (int, error) {
	fd, err := unix.Socket(family(at.Addr()), unix.SOCK_DGRAM|unix.SOCK_NONBLOCK|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return -1, err
	}
	opt := func(level, name, value int) {
		if err == nil {
			err = unix.SetsockoptInt(fd, level, name, value)
		}
	}
	if reuse {
		opt(unix.SOL_SOCKET, unix.SO_REUSEPORT, 1)
	}
	// PROBE sets DF but does not let ICMP lower the path MTU, which is fixed for
	// a queue pair's life.
	if at.Addr().Is4() {
		opt(unix.IPPROTO_IP, unix.IP_MTU_DISCOVER, unix.IP_PMTUDISC_PROBE)
		opt(unix.IPPROTO_IP, unix.IP_RECVTOS, 1)
	} else {
		opt(unix.IPPROTO_IPV6, unix.IPV6_V6ONLY, 1)
		opt(unix.IPPROTO_IPV6, unix.IPV6_MTU_DISCOVER, unix.IPV6_PMTUDISC_PROBE)
		opt(unix.IPPROTO_IPV6, unix.IPV6_RECVTCLASS, 1)
		opt(unix.IPPROTO_UDP, unix.UDP_NO_CHECK6_RX, 1) // rxe and RNICs send checksum 0
	}
	opt(unix.SOL_SOCKET, unix.SO_RXQ_OVFL, 1)
	if err == nil {
		err = unix.Bind(fd, sockaddr(at))
	}
	if err != nil {
		unix.Close(fd)
		return -1, err
	}
	setBuffer(fd, unix.SO_RCVBUFFORCE, unix.SO_RCVBUF, cfg.ReceiveBuffer)
	setBuffer(fd, unix.SO_SNDBUFFORCE, unix.SO_SNDBUF, cfg.SendBuffer)
	return fd, nil
}

// setBuffer sets a buffer size, beyond the system's limit where that is allowed.
func setBuffer(fd, force, plain, size int) {
	if unix.SetsockoptInt(fd, unix.SOL_SOCKET, force, size) != nil {
		_ = unix.SetsockoptInt(fd, unix.SOL_SOCKET, plain, size) // as far as the limit goes; read back later
	}
}

// openReceive opens the receive socket of one shard.
func openReceive(addr netip.Addr, cfg *Config) (int, error) {
	fd, err := openSocket(netip.AddrPortFrom(addr, roce), cfg, true)
	switch {
	case errors.Is(err, unix.EADDRINUSE):
		return -1, fmt.Errorf("UDP port %d of %v is taken, probably by the kernel's rdma_rxe: use --transport verbs there, or another address or network namespace", roce, addr)
	case errors.Is(err, unix.EADDRNOTAVAIL):
		return -1, fmt.Errorf("%v is not an address of this machine", addr)
	case err != nil:
		return -1, fmt.Errorf("open UDP port %d of %v: %w", roce, addr, err)
	}
	return fd, nil
}

// openTransmit opens a transmit socket on a free port from 0xC000 up, as rxe and
// RNICs use them.
func openTransmit(addr netip.Addr, cfg *Config) (int, netip.AddrPort, error) {
	small := *cfg
	small.ReceiveBuffer = 4096 // nothing is ever read from it
	for range 64 {
		at := netip.AddrPortFrom(addr, uint16(0xc000+rand.IntN(0x4000)))
		fd, err := openSocket(at, &small, false)
		if errors.Is(err, unix.EADDRINUSE) {
			continue
		}
		if err != nil {
			return -1, at, fmt.Errorf("open transmit socket on %v: %w", addr, err)
		}
		return fd, at, nil
	}
	return -1, netip.AddrPort{}, fmt.Errorf("no free UDP port above 49151 on %v", addr)
}

// steer attaches the program that picks the receive socket: number 0 for queue
// pair 1 (connection management), else the destination queue pair number modulo
// the number of sockets. It sees the UDP payload; the number is in the low 24
// bits of the word at offset 4 (IBTA 9.2).
func steer(fd, shards int) error {
	prog := []unix.SockFilter{
		{Code: unix.BPF_LD | unix.BPF_W | unix.BPF_ABS, K: 4},
		{Code: unix.BPF_ALU | unix.BPF_AND | unix.BPF_K, K: 0xffffff},
		{Code: unix.BPF_JMP | unix.BPF_JEQ | unix.BPF_K, K: 1, Jt: 0, Jf: 1},
		{Code: unix.BPF_RET | unix.BPF_K, K: 0},
		{Code: unix.BPF_ALU | unix.BPF_MOD | unix.BPF_K, K: uint32(shards)},
		{Code: unix.BPF_RET | unix.BPF_A},
	}
	return unix.SetsockoptSockFprog(fd, unix.SOL_SOCKET, unix.SO_ATTACH_REUSEPORT_CBPF,
		&unix.SockFprog{Len: uint16(len(prog)), Filter: &prog[0]})
}

// MTU asks the kernel for the path to dst by connecting a socket to it, which
// sends nothing.
func (g *group) MTU(dst netip.Addr) (int, error) {
	if !dst.IsValid() {
		dst = g.addr
	}
	dst = dst.Unmap()
	fd, err := unix.Socket(family(dst), unix.SOCK_DGRAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return 0, err
	}
	defer unix.Close(fd)
	if err := unix.Bind(fd, sockaddr(netip.AddrPortFrom(g.addr, 0))); err != nil {
		return 0, err
	}
	if err := unix.Connect(fd, sockaddr(netip.AddrPortFrom(dst, roce))); err != nil {
		return 0, fmt.Errorf("no route from %v to %v: %w", g.addr, dst, err)
	}
	if dst.Is4() {
		return unix.GetsockoptInt(fd, unix.IPPROTO_IP, unix.IP_MTU)
	}
	return unix.GetsockoptInt(fd, unix.IPPROTO_IPV6, unix.IPV6_MTU)
}
