package udp

import (
	"encoding/binary"
	"errors"
	"net/netip"
	"os"
	"runtime"
	"testing"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"
)

// These tests look at the packets that Linux sends, and create those that it receives, since a UDP socket shows
// little of what the ICRC covers. Packets leave through a tun device in a network namespace of the test.

var (
	here, here6   = netip.MustParseAddr("192.0.2.1"), netip.MustParseAddr("2001:db8::1")
	there, there6 = netip.MustParseAddrPort("192.0.2.2:4791"), netip.MustParseAddrPort("[2001:db8::2]:4791")
)

const tunMTU = 1500

// tun is the far end of a device with here/24 and here6/64.
type tun struct {
	t  *testing.T
	fd int
}

// inNamespace runs f on a thread in a new network namespace, which ends with the thread.
func inNamespace(t *testing.T, f func(t *testing.T, n *tun)) {
	t.Helper()
	if _, err := os.Stat("/dev/net/tun"); err != nil {
		t.Skip("this machine has no tun devices")
	}
	skip := ""
	done := make(chan struct{})
	go func() { // ends with f
		defer close(done)
		runtime.LockOSThread() // never unlocked, so that the thread ends with the goroutine
		if err := unix.Unshare(unix.CLONE_NEWNET); err != nil {
			skip = "making a network namespace needs CAP_SYS_ADMIN: " + err.Error()
			return
		}
		n := &tun{t: t}
		defer func() { unix.Close(n.fd) }()
		if n.open() {
			f(t, n)
		}
	}()
	<-done
	if skip != "" {
		t.Skip(skip)
	}
}

// open reports whether the device is up. It must not call FailNow, which is only allowed on the test's goroutine.
func (n *tun) open() bool {
	must := func(what string, err error) bool {
		if err != nil {
			n.t.Errorf("%s: %v", what, err)
		}
		return err == nil
	}
	var err error
	if n.fd, err = unix.Open("/dev/net/tun", unix.O_RDWR|unix.O_CLOEXEC|unix.O_NONBLOCK, 0); !must("open tun", err) {
		return false
	}
	control, err := unix.Socket(unix.AF_INET, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC, 0)
	if !must("open control socket", err) {
		return false
	}
	defer unix.Close(control)
	request, _ := unix.NewIfreq("tun0")
	request.SetUint16(unix.IFF_TUN | unix.IFF_NO_PI)
	if !must("make tun device", unix.IoctlIfreq(n.fd, unix.TUNSETIFF, request)) {
		return false
	}
	for _, step := range []struct {
		name    string
		request uint
		set     func()
	}{
		{"address", unix.SIOCSIFADDR, func() { request.SetInet4Addr(here.AsSlice()) }},
		{"netmask", unix.SIOCSIFNETMASK, func() { request.SetInet4Addr([]byte{255, 255, 255, 0}) }},
		{"MTU", unix.SIOCSIFMTU, func() { request.SetUint32(tunMTU) }},
		{"flags", unix.SIOCSIFFLAGS, func() { request.SetUint16(unix.IFF_UP) }},
	} {
		step.set()
		if !must("set "+step.name, unix.IoctlIfreq(control, step.request, request)) {
			return false
		}
	}
	return must("set IPv6 address", n.address6(request))
}

// address6 adds here6 to the device, usable at once.
func (n *tun) address6(request *unix.Ifreq) error {
	fd, err := unix.Socket(unix.AF_INET6, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return err
	}
	defer unix.Close(fd)
	if err := unix.IoctlIfreq(fd, unix.SIOCGIFINDEX, request); err != nil {
		return err
	}
	in6 := struct { // struct in6_ifreq
		addr   [16]byte
		prefix uint32
		index  int32
	}{here6.As16(), 64, int32(request.Uint32())}
	_, _, errno := unix.Syscall(unix.SYS_IOCTL, uintptr(fd), unix.SIOCSIFADDR, uintptr(unsafe.Pointer(&in6)))
	if errno != 0 {
		return errno
	}
	return nil
}

// sent returns the UDP datagrams that left through the device, as IP packets.
func (n *tun) sent() (packets [][]byte) {
	for {
		b := make([]byte, 1<<16)
		k, err := unix.Read(n.fd, b)
		if err != nil {
			return packets
		}
		b = b[:k]
		if v4, v6 := b[0]>>4 == 4 && b[9] == unix.IPPROTO_UDP, b[0]>>4 == 6 && b[6] == unix.IPPROTO_UDP; v4 || v6 {
			packets = append(packets, b)
		}
	}
}

func (n *tun) deliver(packet []byte) {
	n.t.Helper()
	if _, err := unix.Write(n.fd, packet); err != nil {
		n.t.Errorf("deliver a packet: %v", err)
	}
}

// frame returns the IP packet of a datagram.
func frame(from, to netip.AddrPort, tos uint8, id uint16, payload []byte) []byte {
	return AppendPacket(nil, from, to, tos, id, payload, len(payload))
}

// listen opens an endpoint, waiting until Linux has completed duplicate address detection; nil if that fails.
func (n *tun) listen(addr netip.Addr, cfg Config) Group {
	n.t.Helper()
	for deadline := time.Now().Add(5 * time.Second); ; time.Sleep(time.Millisecond) {
		g, err := Listen(addr, cfg)
		if err == nil {
			return g
		}
		if addr.Is4() || !errors.Is(err, unix.EADDRNOTAVAIL) || time.Now().After(deadline) {
			n.t.Error(err)
			return nil
		}
	}
}

// Segment k has identification k, and a single packet 0; all have DF. The other headers are as written by
// AppendPacket.
func TestHeadersOnTheWire(t *testing.T) {
	for _, c := range []struct {
		name string
		from netip.Addr
		to   netip.AddrPort
	}{{"IPv4", here, there}, {"IPv6", here6, there6}} {
		t.Run(c.name, func(t *testing.T) {
			inNamespace(t, func(t *testing.T, n *tun) {
				g := n.listen(c.from, Config{})
				if g == nil {
					return
				}
				defer g.Close()
				p, data := g.Ports()[0], packet(5, 9*1040+36)
				sent := p.Send([]Message{
					{To: c.to, Source: 1, TOS: 0x2a, SegmentSize: 1040, Pieces: [][]byte{data[:100], data[100:]}},
					{To: c.to, Source: 1, Pieces: [][]byte{data[:50]}},
					{To: c.to, Source: 1, SegmentSize: 1040, Pieces: [][]byte{data[:1040]}},
					{To: c.to, Source: 1, SegmentSize: 1040, Pieces: [][]byte{data[:2*1040]}},
				})
				var want [][]byte
				add := func(tos uint8, id uint16, payload []byte) {
					want = append(want, frame(p.Sources()[1], c.to, tos, id, payload))
				}
				for k := range 9 {
					add(0x2a, uint16(k), data[k*1040:][:1040])
				}
				add(0x2a, 9, data[9*1040:])
				add(0, 0, data[:50])
				add(0, 0, data[:1040])
				add(0, 0, data[:1040])
				add(0, 1, data[1040:2*1040])
				got := n.sent()
				if sent != 4 || len(got) != len(want) {
					t.Errorf("%d messages sent, %d packets; want 4 and %d; %+v", sent, len(got), len(want), p.Stats())
					return
				}
				for i := range want {
					wantPacket(t, i, got[i], want[i])
				}
			})
		})
	}
}

// wantPacket compares everything except what routers may change and the IPv6 flow label, which Linux chooses: the
// ICRC covers neither.
func wantPacket(t *testing.T, i int, got, want []byte) {
	t.Helper()
	if got[0]>>4 == 6 {
		got[1], got[2], got[3] = got[1]&0xf0, 0, 0
	}
	if string(got) != string(want) {
		header := min(48, len(got), len(want))
		t.Errorf("packet %d: headers %x of %d bytes, want %x of %d", i, got[:header], len(got), want[:header], len(want))
	}
}

// Packets of other stacks have any identification, ECN marks, and no UDP checksum. The kernel drops a packet with a
// wrong checksum.
func TestPacketsOfOthers(t *testing.T) {
	for _, c := range []struct {
		name string
		at   netip.Addr
		from netip.AddrPort
	}{{"IPv4", here, there}, {"IPv6", here6, there6}} {
		t.Run(c.name, func(t *testing.T) {
			inNamespace(t, func(t *testing.T, n *tun) {
				g := n.listen(c.at, Config{Shards: 2})
				if g == nil {
					return
				}
				defer g.Close()
				p := g.Ports()[1]
				checksum := ipHeader(c.at.Is4()) + 6
				for i := range 4 {
					b := frame(c.from, to(g), uint8(i), uint16(1000*i), packet(17+2*i, 60+i))
					switch i {
					case 1:
						b[checksum], b[checksum+1] = 0, 0 // none
					case 2:
						b[checksum] ^= 1
					}
					n.deliver(b)
				}
				batch := p.NewBatch()
				count, err := p.Recv(batch)
				if count != 3 || err != nil {
					t.Errorf("%d datagrams received, error %v; want 3", count, err)
					return
				}
				for k, i := range []int{0, 1, 3} {
					d := &batch.Datagrams[k]
					if string(d.Data) != string(packet(17+2*i, 60+i)) || d.From != c.from || d.TOS != uint8(i) || d.CE() != (i == 3) || d.ID != -1 || d.SegmentSize != 0 {
						t.Errorf("datagram %d is %+v", i, *d)
					}
				}
			})
		})
	}
}

// A message that the kernel refuses is skipped. GSO stays on if the message could not have been sent without it
// either.
func TestRefusedByKernel(t *testing.T) {
	inNamespace(t, func(t *testing.T, n *tun) {
		g := n.listen(here, Config{})
		if g == nil {
			return
		}
		defer g.Close()
		p, data := g.Ports()[0], packet(5, 4000)
		elsewhere := netip.MustParseAddrPort("198.51.100.1:4791") // no route
		sent := p.Send([]Message{
			{To: there, Pieces: [][]byte{data[:100]}},
			{To: there, Pieces: [][]byte{data[:tunMTU-27]}},                      // EMSGSIZE
			{To: there, SegmentSize: tunMTU - 27, Pieces: [][]byte{data[:3000]}}, // EINVAL
			{To: there, SegmentSize: tunMTU - 28, Pieces: [][]byte{data[:3000]}},
			{To: elsewhere, Pieces: [][]byte{data[:100]}},
			{To: elsewhere, SegmentSize: 1000, Pieces: [][]byte{data[:3000]}},
			{To: there, Pieces: [][]byte{data[:101]}},
		})
		if got := n.sent(); sent != 3 || len(got) != 5 {
			t.Errorf("%d messages sent, %d packets; want 3 and 5", sent, len(got))
		}
		if s := p.Stats(); !p.GSO() || s.SendLost != 4 || s.SendFull != 0 || s.LastSendError != unix.ENETUNREACH {
			t.Errorf("GSO %v, stats %+v", p.GSO(), s)
		}
	})
}

// The path MTU of a queue pair is fixed for its life: an ICMP message, which can be forged, must not make its packets
// too large to send.
func TestForgedICMPChangesNothing(t *testing.T) {
	inNamespace(t, func(t *testing.T, n *tun) {
		g := n.listen(here, Config{})
		if g == nil {
			return
		}
		defer g.Close()
		p := g.Ports()[0]
		m := []Message{{To: there, Pieces: [][]byte{packet(5, 1400)}}}
		p.Send(m)
		first := n.sent()
		if len(first) != 1 {
			t.Errorf("%d packets sent, want 1", len(first))
			return
		}
		n.deliver(fragmentationNeeded(first[0], 600))
		for range 3 {
			if p.Send(m) != 1 || len(n.sent()) != 1 {
				t.Errorf("after an ICMP message nothing is sent: %+v", p.Stats())
			}
		}
		if count, err := p.Recv(p.NewBatch()); count != 0 || err != nil {
			t.Errorf("received %d datagrams, error %v", count, err)
		}
	})
}

// fragmentationNeeded returns a router's answer to an IPv4 packet (RFC 1191).
func fragmentationNeeded(packet []byte, mtu uint16) []byte {
	be := binary.BigEndian
	icmp := append([]byte{3, 4, 0, 0, 0, 0}, byte(mtu>>8), byte(mtu))
	icmp = append(icmp, packet[:28]...)
	be.PutUint16(icmp[2:], ^onesSum(0, icmp))
	b := appendIPv4(nil, there.Addr(), here, 0, 0, uint16(len(icmp)))
	b[9], b[10], b[11] = unix.IPPROTO_ICMP, 0, 0
	be.PutUint16(b[10:], ^onesSum(0, b))
	return append(b, icmp...)
}
