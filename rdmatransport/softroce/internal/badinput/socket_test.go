package badinput

import (
	"encoding/binary"
	"errors"
	"hash/crc32"
	"net"
	"net/netip"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/nvmeof-go/nvmeof/rdmatransport/softroce"
	"github.com/nvmeof-go/nvmeof/rdmatransport/softroce/internal/udp"
	"github.com/nvmeof-go/nvmeof/rdmatransport/softroce/internal/wire"
)

// An ipShape describes the unusual parts of an IP header.
type ipShape struct {
	options  []byte // of IPv4, or the destination options header of IPv6
	fragment bool   // IPv4: not marked as unfragmentable
}

// rawPeer is a UDP socket that sends to a device.
type rawPeer struct {
	t    *testing.T
	conn *net.UDPConn
	to   netip.AddrPort
}

func newRawPeer(t *testing.T, from, to netip.Addr) *rawPeer {
	t.Helper()
	conn, err := net.ListenUDP("udp", net.UDPAddrFromAddrPort(netip.AddrPortFrom(from, 0)))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { conn.Close() })
	return &rawPeer{t, conn, netip.AddrPortFrom(to, wire.Port)}
}

// shape makes the kernel send such headers.
func (r *rawPeer) shape(s ipShape) {
	r.t.Helper()
	raw, err := r.conn.SyscallConn()
	if err != nil {
		r.t.Fatal(err)
	}
	var failed error
	set := func(fd int) {
		switch {
		case s.options != nil && r.to.Addr().Is4():
			failed = unix.SetsockoptString(fd, unix.IPPROTO_IP, unix.IP_OPTIONS, string(s.options))
		case s.options != nil:
			failed = unix.SetsockoptString(fd, unix.IPPROTO_IPV6, unix.IPV6_DSTOPTS, string(s.options))
		case s.fragment:
			failed = unix.SetsockoptInt(fd, unix.IPPROTO_IP, unix.IP_MTU_DISCOVER, unix.IP_PMTUDISC_DONT)
		}
	}
	if err := raw.Control(func(fd uintptr) { set(int(fd)) }); err != nil {
		r.t.Fatal(err)
	}
	if failed == syscall.EPERM {
		r.t.Skip("setting this option takes CAP_NET_RAW")
	}
	if failed != nil {
		r.t.Fatal(failed)
	}
}

// seal appends the ICRC of a packet with such a header (IBTA A17.3.3), computed independently of the code under test.
func (r *rawPeer) seal(b []byte, s ipShape) []byte {
	from := r.conn.LocalAddr().(*net.UDPAddr).AddrPort()
	size := len(b) + 4 + 8
	h := []byte{0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff}
	if r.to.Addr().Is4() {
		flags := byte(0x40)
		if s.fragment {
			flags = 0
		}
		n := 20 + len(s.options)
		h = append(h, byte(0x40|n/4), 0xff, byte((n+size)>>8), byte(n+size), 0, 0, flags, 0, 0xff, 17, 0xff, 0xff)
	} else {
		n, next := size+len(s.options), byte(17)
		if s.options != nil {
			next = 60
		}
		h = append(h, 0x6f, 0xff, 0xff, 0xff, byte(n>>8), byte(n), next, 0xff)
	}
	h = append(append(h, from.Addr().Unmap().AsSlice()...), r.to.Addr().AsSlice()...)
	h = append(h, s.options...)
	h = binary.BigEndian.AppendUint16(h, from.Port())
	h = binary.BigEndian.AppendUint16(h, r.to.Port())
	h = binary.BigEndian.AppendUint16(h, uint16(size))
	h = append(h, 0xff, 0xff)
	bth := append([]byte(nil), b...)
	bth[4] = 0xff
	return binary.LittleEndian.AppendUint32(b, crc32.ChecksumIEEE(append(h, bth...)))
}

func (r *rawPeer) send(b []byte) {
	r.t.Helper()
	if _, err := r.conn.WriteToUDPAddrPort(b, r.to); err != nil {
		r.t.Fatal(err)
	}
}

// request returns a request to a port without a listener, without ICRC.
func request(extra int) []byte {
	var m wire.MAD
	(&wire.REQ{LocalID: 7, QPN: 0x300, Service: wire.TCPService(1)}).Put(&m, transaction)
	p := datagram(&m)
	return append(append(wire.AppendHeaders(nil, &p), m[:]...), make([]byte, extra)...)
}

func openOnSockets(t *testing.T, addr netip.Addr) *softroce.Device {
	t.Helper()
	d, err := softroce.Open(softroce.Config{Addr: addr})
	// Tests of other packages may be using ::1.
	for deadline := time.Now().Add(10 * time.Second); errors.As(err, new(*udp.InUseError)) && time.Now().Before(deadline); {
		time.Sleep(20 * time.Millisecond)
		d, err = softroce.Open(softroce.Config{Addr: addr})
	}
	if err != nil {
		t.Fatal(err)
	}
	l, err := startLoop(d)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := l.close(); err != nil {
			t.Error(err)
		}
		if err := d.Close(); err != nil {
			t.Error(err)
		}
	})
	return d
}

// wantMoved waits until a counter is incremented.
func wantMoved(t *testing.T, d *softroce.Device, n counter, before uint64) {
	t.Helper()
	for end := time.Now().Add(3 * time.Second); time.Now().Before(end); time.Sleep(time.Millisecond) {
		if sum(d, n) > before {
			return
		}
	}
	t.Error("the counter did not move")
}

// TestUnusualIPHeaders is row 31 as far as a socket allows: the kernel itself drops or hides VLAN tags and
// reassembles fragments.
func TestUnusualIPHeaders(t *testing.T) {
	v4, v4peer := netip.MustParseAddr("127.84.0.1"), netip.MustParseAddr("127.84.0.2")
	for _, c := range []struct {
		name    string
		shape   ipShape
		six     bool
		make    func(r *rawPeer, s ipShape) []byte
		counter counter
	}{
		{"as usual", ipShape{}, false, nil, invalidService},
		{"IPv4 options", ipShape{options: []byte{1, 1, 1, 1}}, false, nil, fault(wire.BadICRC)},
		{"fragments allowed", ipShape{fragment: true}, false, nil, fault(wire.BadICRC)},
		{"jumbo", ipShape{}, false, func(r *rawPeer, s ipShape) []byte { return r.seal(request(8000), s) }, badMAD},
		{"largest datagram", ipShape{}, false, func(r *rawPeer, s ipShape) []byte { return r.seal(request(65200), s) },
			func(s *softroce.Stats) uint64 { return s.CM.BadMAD + s.UDP.Truncated + s.Faults[wire.BadICRC] }},
		{"empty datagram", ipShape{}, false, func(*rawPeer, ipShape) []byte { return nil }, fault(wire.ShortPacket)},
		{"IPv6", ipShape{}, true, nil, invalidService},
		{"IPv6 destination options", ipShape{options: []byte{17, 0, 1, 4, 0, 0, 0, 0}}, true, nil, fault(wire.BadICRC)},
	} {
		t.Run(c.name, func(t *testing.T) {
			to, from := v4, v4peer
			if c.six {
				to = netip.IPv6Loopback()
				from = to
				if l, err := net.ListenPacket("udp6", "[::1]:0"); err != nil {
					t.Skip("no IPv6 on this machine")
				} else {
					l.Close()
				}
			}
			d := openOnSockets(t, to)
			r := newRawPeer(t, from, to)
			r.shape(c.shape)
			b := r.seal(request(0), c.shape)
			if c.make != nil {
				b = c.make(r, c.shape)
			}
			before := sum(d, c.counter)
			r.send(b)
			wantMoved(t, d, c.counter, before)
			// The device serves the next request.
			fine := newRawPeer(t, from, to)
			before = sum(d, invalidService)
			fine.send(fine.seal(request(0), ipShape{}))
			wantMoved(t, d, invalidService, before)
		})
	}
}
