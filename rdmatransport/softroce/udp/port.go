package udp

import (
	"fmt"
	"net/netip"
	"unsafe"

	"golang.org/x/sys/unix"
)

// port is one shard's sockets.
type port struct {
	recv     int
	transmit []int
	sources  []netip.AddrPort
	gso      bool
	stats    Stats
	wait     waiter
	out      sendBatch
	is4      bool
}

func openPort(addr netip.Addr, cfg *Config) (*port, error) {
	p := &port{recv: -1, gso: !cfg.NoGSO, is4: addr.Is4()}
	p.wait.epoll, p.wait.event = -1, -1
	fd, err := openReceive(addr, cfg)
	if err != nil {
		return nil, err
	}
	p.recv = fd
	if !cfg.NoGRO {
		// Older kernels refuse, and then deliver every packet alone.
		_ = unix.SetsockoptInt(fd, unix.IPPROTO_UDP, unix.UDP_GRO, 1)
	}
	if p.stats.ReceiveBuffer, err = unix.GetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_RCVBUF); err != nil {
		p.close()
		return nil, err
	}
	for range cfg.Transmit {
		fd, at, err := openTransmit(addr, cfg)
		if err != nil {
			p.close()
			return nil, err
		}
		p.transmit, p.sources = append(p.transmit, fd), append(p.sources, at)
	}
	// Reading the option back tells whether this kernel has it (4.18).
	if _, err := unix.GetsockoptInt(p.transmit[0], unix.IPPROTO_UDP, unix.UDP_SEGMENT); err != nil {
		p.gso = false
	}
	if err := p.wait.open(p.recv); err != nil {
		p.close()
		return nil, fmt.Errorf("open epoll: %w", err)
	}
	p.out.init()
	return p, nil
}

func (p *port) close() {
	p.wait.close()
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

// rawAddress writes a socket address in the kernel's form and returns its length.
func rawAddress(dst *unix.RawSockaddrInet6, ap netip.AddrPort) uint32 {
	if ap.Addr().Is4() {
		a := (*unix.RawSockaddrInet4)(unsafe.Pointer(dst))
		a.Family, a.Addr = unix.AF_INET, ap.Addr().As4()
		putPort(&a.Port, ap.Port())
		return unix.SizeofSockaddrInet4
	}
	dst.Family, dst.Addr = unix.AF_INET6, ap.Addr().As16()
	dst.Flowinfo, dst.Scope_id = 0, 0
	putPort(&dst.Port, ap.Port())
	return unix.SizeofSockaddrInet6
}

// putPort stores a port in network byte order.
func putPort(dst *uint16, port uint16) {
	b := (*[2]byte)(unsafe.Pointer(dst))
	b[0], b[1] = byte(port>>8), byte(port)
}

func goAddress(src *unix.RawSockaddrInet6) netip.AddrPort {
	b := (*[2]byte)(unsafe.Pointer(&src.Port)) // at the same offset in both families
	port := uint16(b[0])<<8 | uint16(b[1])
	if src.Family == unix.AF_INET {
		return netip.AddrPortFrom(netip.AddrFrom4((*unix.RawSockaddrInet4)(unsafe.Pointer(src)).Addr), port)
	}
	return netip.AddrPortFrom(netip.AddrFrom16(src.Addr).Unmap(), port)
}
