package main

import (
	"bytes"
	"encoding/binary"
	"net"
	"net/netip"
	"testing"

	"github.com/nvmeof-go/nvmeof/test/soak/internal/relay"
)

// TestWire: the wire answers ARP only for a listener, and sends the guest IPv4 packets with the right checksums.
func TestWire(t *testing.T) {
	front := netip.MustParseAddr("127.1.1.11")
	w := &wire{fronts: map[netip.Addr]netip.Addr{guestFront: front}, names: map[netip.Addr]netip.Addr{front: guestFront}}
	guest, own := net.Pipe()
	defer guest.Close()
	w.conn = own
	frames := make(chan []byte, 4)
	go func() {
		for {
			b := make([]byte, 4)
			if _, err := guest.Read(b); err != nil {
				return
			}
			b = make([]byte, binary.BigEndian.Uint32(b))
			if _, err := guest.Read(b); err != nil {
				return
			}
			frames <- b
		}
	}()
	ask := func(addr netip.Addr) []byte {
		f := append(bytes.Repeat([]byte{0xff}, 6), guestMAC[:]...)
		f = append(f, 8, 6, 0, 1, 8, 0, 6, 4, 0, 1)
		f = append(append(f, guestMAC[:]...), guestAddr.AsSlice()...)
		return append(append(f, make([]byte, 6)...), addr.AsSlice()...)
	}
	w.received(ask(guestAddr), nil)
	w.received(ask(guestFront), nil)
	reply := <-frames
	if len(reply) != 60 || !bytes.Equal(reply[:6], guestMAC[:]) || !bytes.Equal(reply[22:28], wireMAC[:]) || !bytes.Equal(reply[28:32], guestFront.AsSlice()) ||
		!bytes.Equal(reply[32:38], guestMAC[:]) || !bytes.Equal(reply[38:42], guestAddr.AsSlice()) {
		t.Errorf("ARP: % x", reply)
	}
	packet := bytes.Repeat([]byte{7}, 64)
	w.deliver(front, packet)
	f := <-frames
	if headerSum(f[ethSize:ethSize+ipSize]) != 0 || len(f) != ethSize+ipSize+udpSize+64 || !bytes.Equal(f[ethSize+ipSize+udpSize:], packet) {
		t.Errorf("packet: % x", f)
	}
	sealed := bytes.Clone(packet)
	relay.Seal(sealed, netip.AddrPortFrom(guestFront, relay.Port), netip.AddrPortFrom(guestAddr, relay.Port))
	if !bytes.Equal(sealed, packet) {
		t.Error("the CRC is not that of the addresses which the guest sees")
	}
}

func TestLinuxCounts(t *testing.T) {
	var c linuxCounts
	c.add("connect", "")
	c.add("verify", "written 10\nread 20\nreconnects 3\n")
	c.add("verify", "written 1\nread 2\nreconnects 0\n")
	if c != (linuxCounts{2, 11, 22, 3}) {
		t.Errorf("%+v", c)
	}
}
