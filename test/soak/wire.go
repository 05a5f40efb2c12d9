package main

import (
	"encoding/binary"
	"errors"
	"io"
	"math/rand/v2"
	"net"
	"net/netip"
	"sync"

	"github.com/nvmeof-go/nvmeof/test/soak/internal/relay"
)

// A wire is the Ethernet of a guest with the relay at its other end. A guest reaches listeners at addresses of a
// network of its own, for which the wire answers ARP.
type wire struct {
	relay    *relay.Relay
	guest    netip.Addr
	fronts   map[netip.Addr]netip.Addr // the guest's name of a front to the relay's
	names    map[netip.Addr]netip.Addr // and back
	listener net.Listener              // to which QEMU connects

	mu   sync.Mutex // guards what follows
	conn net.Conn   // nil: the guest is not connected
}

// The guest's network.
var (
	guestAddr  = netip.MustParseAddr("10.77.0.9")
	guestFront = netip.MustParseAddr("10.77.0.1") // of listener 1; that of listener 2 is the next
	wireMAC    = [6]byte{0x52, 0x54, 0, 0, 0, 1}
	guestMAC   = [6]byte{0x52, 0x54, 0, 0, 0, 2}
)

const (
	typeIPv4 = 0x0800
	typeARP  = 0x0806
	protoUDP = 17
	ethSize  = 14
	ipSize   = 20
	udpSize  = 8
)

// serve handles frames of the guest until the listener is closed. In QEMU's stream each frame follows its length.
func (w *wire) serve(seed uint64) {
	conn, err := w.listener.Accept()
	if err != nil {
		return
	}
	w.mu.Lock()
	w.conn = conn
	w.mu.Unlock()
	random := rand.New(rand.NewPCG(seed, 1<<32))
	for {
		var size [4]byte
		if _, err := io.ReadFull(conn, size[:]); err != nil {
			return
		}
		frame := make([]byte, binary.BigEndian.Uint32(size[:]))
		if _, err := io.ReadFull(conn, frame); err != nil {
			return
		}
		w.received(frame, random)
	}
}

func (w *wire) close() error {
	w.mu.Lock()
	defer w.mu.Unlock()
	err := w.listener.Close()
	if w.conn != nil {
		err = errors.Join(err, w.conn.Close())
	}
	return err
}

// received handles a frame: it answers ARP requests, forwards RoCEv2 and drops the rest.
func (w *wire) received(frame []byte, random *rand.Rand) {
	if len(frame) < ethSize+ipSize+udpSize {
		return
	}
	be, body := binary.BigEndian, frame[ethSize:]
	switch be.Uint16(frame[12:]) {
	case typeARP:
		if asked, ok := netip.AddrFromSlice(body[24:28]); ok && be.Uint16(body[6:]) == 1 && w.fronts[asked].IsValid() {
			w.send(answerARP(body, asked))
		}
	case typeIPv4:
		to, _ := netip.AddrFromSlice(body[16:20])
		end := int(be.Uint16(body[2:]))
		if body[0] != 0x45 || body[9] != protoUDP || end < ipSize+udpSize || end > len(body) || be.Uint16(body[22:]) != relay.Port || !w.fronts[to].IsValid() {
			return
		}
		w.relay.Inject(w.guest, w.fronts[to], body[ipSize+udpSize:end], random)
	}
}

// answerARP returns the reply to an ARP request for an address of the wire.
func answerARP(request []byte, asked netip.Addr) []byte {
	f := append(guestMAC[:], wireMAC[:]...)
	f = binary.BigEndian.AppendUint16(f, typeARP)
	f = append(f, 0, 1, 8, 0, 6, 4, 0, 2) // Ethernet, IPv4, reply
	f = append(append(f, wireMAC[:]...), asked.AsSlice()...)
	return append(f, request[8:18]...) // to the sender
}

// deliver sends a packet of a listener to the guest.
func (w *wire) deliver(front netip.Addr, packet []byte) {
	from := netip.AddrPortFrom(w.names[front], relay.Port)
	relay.Seal(packet, from, netip.AddrPortFrom(guestAddr, relay.Port))
	be := binary.BigEndian
	f := append(guestMAC[:], wireMAC[:]...)
	f = be.AppendUint16(f, typeIPv4)
	f = be.AppendUint16(append(f, 0x45, 0), uint16(ipSize+udpSize+len(packet)))
	f = append(f, 0, 0, 0x40, 0, 64, protoUDP, 0, 0) // identification 0, do not fragment
	f = append(append(f, from.Addr().AsSlice()...), guestAddr.AsSlice()...)
	be.PutUint16(f[ethSize+10:], headerSum(f[ethSize:]))
	f = be.AppendUint16(be.AppendUint16(f, relay.Port), relay.Port)
	f = append(be.AppendUint16(f, uint16(udpSize+len(packet))), 0, 0)
	w.send(append(f, packet...))
}

// headerSum returns the checksum of an IPv4 header whose checksum field is 0.
func headerSum(h []byte) uint16 {
	sum := uint32(0)
	for i := 0; i < len(h); i += 2 {
		sum += uint32(binary.BigEndian.Uint16(h[i:]))
	}
	for sum>>16 != 0 {
		sum = sum&0xffff + sum>>16
	}
	return ^uint16(sum)
}

func (w *wire) send(frame []byte) {
	if len(frame) < 60 {
		frame = append(frame, make([]byte, 60-len(frame))...)
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.conn == nil {
		return
	}
	_, _ = w.conn.Write(append(binary.BigEndian.AppendUint32(nil, uint32(len(frame))), frame...)) // an error means that the guest is gone
}
