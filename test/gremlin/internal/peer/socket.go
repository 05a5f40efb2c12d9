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

// A Socket sends datagrams from an address, whoever's that is on this machine.
type Socket struct {
	conn *net.UDPConn
	from netip.AddrPort
	buf  []byte

	// Sent counts datagrams. With a Rate a socket sends no more than that each second.
	Sent uint64
	Rate int
	// Twist changes datagrams before they are sealed, those of the connection manager aside.
	Twist func(b []byte) []byte
	began time.Time // of the count in paced
	paced int
}

// Bind opens a socket on a port of an address, 0 for any.
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

// prepare makes what the ICRC covers predictable (with the do-not-fragment bit Linux sends
// identification 0), asks for room, and for leave to have an address of others, which root has.
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

// Addr is from where it sends.
func (s *Socket) Addr() netip.Addr { return s.from.Addr() }

// Close ends it.
func (s *Socket) Close() error { return s.conn.Close() }

// Seal appends the ICRC that b has from here to an address.
func (s *Socket) Seal(to netip.Addr, b []byte) []byte {
	return packet.Seal(s.from, netip.AddrPortFrom(to, packet.Port), b)
}

// Send sends packets.
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

// Throw sends a datagram as it is.
func (s *Socket) Throw(to netip.Addr, b []byte) error {
	s.pace()
	s.Sent++
	_, err := s.conn.WriteToUDPAddrPort(b, netip.AddrPortFrom(to, packet.Port))
	// A refusal is of an earlier datagram, to who is not there; a full queue is a loss.
	if err != nil && !errors.Is(err, unix.ECONNREFUSED) && !errors.Is(err, unix.ENOBUFS) && !errors.Is(err, unix.EMSGSIZE) {
		return fmt.Errorf("send to %v: %w", to, err)
	}
	return nil
}

// pace waits while more has been sent than the rate allows, in steps of some milliseconds.
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

// receive waits until a deadline for a datagram; ok is false when none came.
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
