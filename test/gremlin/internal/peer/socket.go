package peer

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"os"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/nvmeof-go/nvmeof/test/gremlin/internal/packet"
)

// A Socket sends datagrams from an address of this machine, even if another process uses that address.
type Socket struct {
	conn *net.UDPConn
	from netip.AddrPort
	buf  []byte

	// Sent counts the datagrams that were sent. If Rate is not 0, no more than that are sent per second.
	Sent uint64
	Rate int
	// Twist changes packets before their ICRC is computed, except those of the connection manager.
	Twist func(b []byte) []byte
	began time.Time // of the count in paced
	paced int
}

// Bind opens a socket on an address and port. Port 0 means any.
func Bind(addr netip.Addr, port uint16) (*Socket, error) {
	control := func(_, _ string, raw syscall.RawConn) error {
		var err error
		if e := raw.Control(func(fd uintptr) { err = prepare(int(fd), addr) }); e != nil {
			return e
		}
		return err
	}
	listen := net.ListenConfig{Control: control}
	conn, err := listen.ListenPacket(context.Background(), "udp", netip.AddrPortFrom(addr, port).String())
	if err != nil {
		return nil, err
	}
	udp := conn.(*net.UDPConn)
	from := udp.LocalAddr().(*net.UDPAddr).AddrPort()
	return &Socket{conn: udp, from: netip.AddrPortFrom(addr, from.Port())}, nil
}

// prepare sets the socket options. The do-not-fragment bit makes the IPv4 header that the ICRC covers predictable,
// because Linux then sends identification 0. It also asks for a large receive buffer, and for the permission to use an
// address that is not of this machine, which only root gets.
func prepare(fd int, addr netip.Addr) error {
	if unix.SetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_RCVBUFFORCE, 8<<20) != nil {
		_ = unix.SetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_RCVBUF, 8<<20)
	}
	if addr.Is4() {
		_ = unix.SetsockoptInt(fd, unix.SOL_IP, unix.IP_TRANSPARENT, 1)
		return unix.SetsockoptInt(fd, unix.SOL_IP, unix.IP_MTU_DISCOVER, unix.IP_PMTUDISC_PROBE)
	}
	_ = unix.SetsockoptInt(fd, unix.SOL_IPV6, unix.IPV6_TRANSPARENT, 1)
	_ = unix.SetsockoptInt(fd, unix.SOL_UDP, unix.UDP_NO_CHECK6_RX, 1) // rxe and RNICs send checksum 0
	return unix.SetsockoptInt(fd, unix.SOL_IPV6, unix.IPV6_MTU_DISCOVER, unix.IPV6_PMTUDISC_PROBE)
}

// Addr returns the source address.
func (s *Socket) Addr() netip.Addr { return s.from.Addr() }

// Close closes the socket.
func (s *Socket) Close() error { return s.conn.Close() }

// Seal appends the ICRC that b has when it is sent from this socket to an address.
func (s *Socket) Seal(to netip.Addr, b []byte) []byte {
	return packet.Seal(s.from, netip.AddrPortFrom(to, packet.Port), b)
}

// Send encodes, seals and sends packets.
func (s *Socket) Send(to netip.Addr, packets ...packet.Packet) error {
	for i := range packets {
		s.buf = packets[i].Append(s.buf[:0])
		if s.Twist != nil && packets[i].QPN != packet.CMQPN {
			s.buf = s.Twist(s.buf)
		}
		s.buf = s.Seal(to, s.buf)
		if err := s.Throw(to, s.buf); err != nil {
			return err
		}
	}
	return nil
}

// Throw sends a datagram unchanged.
func (s *Socket) Throw(to netip.Addr, b []byte) error {
	s.pace()
	s.Sent++
	_, err := s.conn.WriteToUDPAddrPort(b, netip.AddrPortFrom(to, packet.Port))
	// ECONNREFUSED reports that an earlier datagram met no listener; a full queue is a loss.
	if err != nil && !errors.Is(err, unix.ECONNREFUSED) && !errors.Is(err, unix.ENOBUFS) && !errors.Is(err, unix.EMSGSIZE) {
		return fmt.Errorf("send to %v: %w", to, err)
	}
	return nil
}

// pace sleeps, in steps of some milliseconds, while more has been sent than the rate allows.
func (s *Socket) pace() {
	if s.Rate == 0 {
		return
	}
	if now := time.Now(); now.Sub(s.began) > time.Second {
		s.began, s.paced = now, 0
	}
	s.paced++
	due := time.Duration(s.paced) * time.Second / time.Duration(s.Rate)
	if ahead := due - time.Since(s.began); ahead > 5*time.Millisecond {
		time.Sleep(ahead)
	}
}

// receive waits for a datagram until a deadline; ok is false if none arrived.
func (s *Socket) receive(buf []byte, until time.Time) (b []byte, from netip.Addr, ok bool, err error) {
	if err = s.conn.SetReadDeadline(until); err != nil {
		return nil, from, false, err
	}
	n, at, err := s.conn.ReadFromUDPAddrPort(buf)
	switch {
	case err == nil:
		return buf[:n], at.Addr().Unmap(), true, nil
	case errors.Is(err, os.ErrDeadlineExceeded), errors.Is(err, unix.ECONNREFUSED):
		return nil, from, false, nil
	}
	return nil, from, false, err
}
