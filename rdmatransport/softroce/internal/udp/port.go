package udp

import (
	"fmt"
	"net/netip"
	"unsafe"

	"golang.org/x/sys/unix"

	"github.com/nvmeof-go/nvmeof/rdmatransport/internal/waiter"
)

// port holds one shard's sockets.
type port struct {
	group    *group
	recv     int
	transmit []int
	sources  []netip.AddrPort
	is4      bool
	gso, gro bool
	stats    Stats
	overflow uint32 // the kernel's counter, which wraps
	begins   bool   // was adopted and has not begun
	wait     waiter.Waiter
	out      sendBatch
}

func openPort(g *group, cfg *Config) (*port, error) {
	p := &port{group: g, recv: -1, is4: g.addr.Is4()}
	err := p.openSockets(cfg)
	if err == nil {
		if err = p.wait.Open(); err == nil {
			err = p.wait.Quiet(p.recv)
		}
	}
	if err != nil {
		p.close()
		return nil, err
	}
	p.out.init()
	return p, nil
}

func (p *port) openSockets(cfg *Config) (err error) {
	g := p.group
	if p.recv, err = openReceive(g.addr, g.zone, cfg); err != nil {
		return err
	}
	for range cfg.Transmit {
		fd, at, err := openTransmit(g.addr, g.zone, cfg)
		if err != nil {
			return err
		}
		p.transmit, p.sources = append(p.transmit, fd), append(p.sources, at)
	}
	return p.configure(cfg)
}

// configure determines what the sockets support.
func (p *port) configure(cfg *Config) (err error) {
	if p.stats.ReceiveBuffer, err = unix.GetsockoptInt(p.recv, unix.SOL_SOCKET, unix.SO_RCVBUF); err != nil {
		return fmt.Errorf("read SO_RCVBUF: %w", err)
	}
	merge := 1
	if cfg.NoGRO {
		merge = 0
	}
	// Kernels without the option return an error.
	p.gro = unix.SetsockoptInt(p.recv, unix.IPPROTO_UDP, unix.UDP_GRO, merge) == nil && !cfg.NoGRO
	_, err = unix.GetsockoptInt(p.transmit[0], unix.IPPROTO_UDP, unix.UDP_SEGMENT)
	p.gso = !cfg.NoGSO && err == nil
	return nil
}

func (p *port) close() {
	p.wait.Close()
	for _, fd := range append(p.transmit, p.recv) {
		if fd >= 0 {
			unix.Close(fd)
		}
	}
	p.transmit, p.recv = nil, -1
}

func (p *port) Sources() []netip.AddrPort { return p.sources }
func (p *port) GSO() bool                 { return p.gso }
func (p *port) ReceiveBudget() int        { return p.stats.ReceiveBuffer / 2 }
func (p *port) Stats() Stats              { return p.stats }

// rawAddress writes a socket address in the kernel's format and returns its length.
func (p *port) rawAddress(dst *unix.RawSockaddrInet6, to netip.AddrPort) uint32 {
	addr := to.Addr()
	if p.is4 {
		a := (*unix.RawSockaddrInet4)(unsafe.Pointer(dst))
		a.Family, a.Addr = unix.AF_INET, addr.As4()
		putPort(&a.Port, to.Port())
		return unix.SizeofSockaddrInet4
	}
	dst.Family, dst.Addr = unix.AF_INET6, addr.As16()
	dst.Flowinfo, dst.Scope_id = 0, 0
	if addr.IsLinkLocalUnicast() {
		dst.Scope_id = p.group.zone
	}
	putPort(&dst.Port, to.Port())
	return unix.SizeofSockaddrInet6
}

// goAddress is the inverse of rawAddress.
func (p *port) goAddress(src *unix.RawSockaddrInet6) netip.AddrPort {
	b := (*[2]byte)(unsafe.Pointer(&src.Port)) // at the same offset in both families
	port := uint16(b[0])<<8 | uint16(b[1])
	if p.is4 {
		return netip.AddrPortFrom(netip.AddrFrom4((*unix.RawSockaddrInet4)(unsafe.Pointer(src)).Addr), port)
	}
	addr := netip.AddrFrom16(src.Addr)
	if addr.IsLinkLocalUnicast() {
		addr = addr.WithZone(p.group.addr.Zone())
	}
	return netip.AddrPortFrom(addr, port)
}

// putPort stores a port in network byte order.
func putPort(dst *uint16, port uint16) {
	b := (*[2]byte)(unsafe.Pointer(dst))
	b[0], b[1] = byte(port>>8), byte(port)
}
