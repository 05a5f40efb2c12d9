package udp

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"net/netip"
	"os"

	"golang.org/x/sys/unix"
)

func family(addr netip.Addr) int {
	if addr.Is4() {
		return unix.AF_INET
	}
	return unix.AF_INET6
}

// sockaddr is used for system calls that are made once. zone is the interface index of link-local addresses.
func sockaddr(ap netip.AddrPort, zone uint32) unix.Sockaddr {
	if ap.Addr().Is4() {
		return &unix.SockaddrInet4{Port: int(ap.Port()), Addr: ap.Addr().As4()}
	}
	return &unix.SockaddrInet6{Port: int(ap.Port()), Addr: ap.Addr().As16(), ZoneId: zone}
}

// option is an integer socket option.
type option struct{ level, name, value int }

// identityOptions make the fields that the ICRC covers predictable. PROBE sets DF, and therefore the IPv4
// identification to 0. It also keeps ICMP from lowering the path MTU, which is fixed for a queue pair's life.
func identityOptions(addr netip.Addr) []option {
	if addr.Is4() {
		return []option{{unix.IPPROTO_IP, unix.IP_MTU_DISCOVER, unix.IP_PMTUDISC_PROBE}}
	}
	return []option{
		{unix.IPPROTO_IPV6, unix.IPV6_V6ONLY, 1},
		{unix.IPPROTO_IPV6, unix.IPV6_MTU_DISCOVER, unix.IPV6_PMTUDISC_PROBE},
	}
}

// receiveOptions request the ancillary data needed with each datagram.
func receiveOptions(addr netip.Addr) []option {
	common := option{unix.SOL_SOCKET, unix.SO_RXQ_OVFL, 1}
	if addr.Is4() {
		return []option{common, {unix.IPPROTO_IP, unix.IP_RECVTOS, 1}}
	}
	return []option{
		common,
		{unix.IPPROTO_IPV6, unix.IPV6_RECVTCLASS, 1},
		{unix.IPPROTO_UDP, unix.UDP_NO_CHECK6_RX, 1}, // rxe and RNICs send checksum 0
	}
}

// openSocket creates a socket with options, bound to an address.
func openSocket(at netip.AddrPort, zone uint32, options []option) (int, error) {
	fd, err := unix.Socket(family(at.Addr()), unix.SOCK_DGRAM|unix.SOCK_NONBLOCK|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return -1, err
	}
	for _, o := range options {
		if err = unix.SetsockoptInt(fd, o.level, o.name, o.value); err != nil {
			unix.Close(fd)
			return -1, fmt.Errorf("socket option %d of level %d: %w", o.name, o.level, err)
		}
	}
	if err = unix.Bind(fd, sockaddr(at, zone)); err != nil {
		unix.Close(fd)
		return -1, err
	}
	return fd, nil
}

// setBuffer sets a buffer size, beyond the system's limit if that is permitted. The resulting size is read back
// later.
func setBuffer(fd, force, plain, size int) {
	if unix.SetsockoptInt(fd, unix.SOL_SOCKET, force, size) != nil {
		_ = unix.SetsockoptInt(fd, unix.SOL_SOCKET, plain, size)
	}
}

// openReceive opens the receive socket of one shard.
func openReceive(addr netip.Addr, zone uint32, cfg *Config) (int, error) {
	options := append(identityOptions(addr), receiveOptions(addr)...)
	if cfg.Shards > 1 {
		options = append(options, option{unix.SOL_SOCKET, unix.SO_REUSEPORT, 1})
	}
	fd, err := openSocket(netip.AddrPortFrom(addr, roce), zone, options)
	if err != nil {
		return -1, explain(addr, err)
	}
	setBuffer(fd, unix.SO_RCVBUFFORCE, unix.SO_RCVBUF, cfg.ReceiveBuffer)
	return fd, nil
}

// explain says what to do if port 4791 is not available.
func explain(addr netip.Addr, err error) error {
	_, noRXE := os.Stat("/sys/module/rdma_rxe")
	switch {
	case errors.Is(err, unix.EADDRINUSE) && noRXE == nil:
		return fmt.Errorf("the kernel's rdma_rxe holds UDP port %d here: use --transport verbs, or another network namespace: %w", roce, err)
	case errors.Is(err, unix.EADDRINUSE):
		return fmt.Errorf("another program holds UDP port %d of %v (ss -ulnp shows which): stop it, or use another address: %w", roce, addr, err)
	case errors.Is(err, unix.EADDRNOTAVAIL):
		return fmt.Errorf("%v is not an address of this machine (ip address shows them): %w", addr, err)
	}
	return fmt.Errorf("open UDP port %d of %v: %w", roce, addr, err)
}

// openTransmit opens a transmit socket on a free port from 0xC000 up, the range that rxe and RNICs use.
func openTransmit(addr netip.Addr, zone uint32, cfg *Config) (int, netip.AddrPort, error) {
	for range 64 {
		at := netip.AddrPortFrom(addr, uint16(0xc000+rand.IntN(0x4000)))
		fd, err := openSocket(at, zone, identityOptions(addr))
		if errors.Is(err, unix.EADDRINUSE) {
			continue
		}
		if err == nil {
			err = ignoreReceived(fd)
		}
		if err != nil {
			return -1, at, fmt.Errorf("open transmit socket on %v: %w", addr, err)
		}
		setBuffer(fd, unix.SO_SNDBUFFORCE, unix.SO_SNDBUF, cfg.SendBuffer)
		return fd, at, nil
	}
	return -1, netip.AddrPort{}, fmt.Errorf("no free UDP port above 49151 on %v", addr)
}

// ignoreReceived makes the kernel drop datagrams that arrive at a transmit socket, which are never read.
func ignoreReceived(fd int) error {
	drop := []unix.SockFilter{{Code: unix.BPF_RET | unix.BPF_K, K: 0}}
	return unix.SetsockoptSockFprog(fd, unix.SOL_SOCKET, unix.SO_ATTACH_FILTER,
		&unix.SockFprog{Len: uint16(len(drop)), Filter: &drop[0]})
}

// steer attaches the BPF program that selects the receive socket: number 0 for queue pair 1 (connection management),
// otherwise the destination queue pair number modulo the number of sockets. The program sees the UDP payload; the
// queue pair number is in the low 24 bits of the word at offset 4 (IBTA 9.2). Datagrams too short for that go to
// socket 0.
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

// shardOf applies the same rule in the in-memory network.
func shardOf(payload []byte, shards int) int {
	if len(payload) < 8 {
		return 0
	}
	qpn := int(payload[5])<<16 | int(payload[6])<<8 | int(payload[7])
	if qpn == 1 {
		return 0
	}
	return qpn % shards
}
