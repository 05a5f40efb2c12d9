// Package relay forwards RoCEv2 packets between hosts and targets of one machine and loses, duplicates, reorders and
// delays some of them. It needs no privileges.
//
// Each listener of a target has an address in front of it, the front, to which hosts connect. Each host has an address,
// the alias, under which targets know it. A packet from a host to a front is sent from the host's alias to the
// listener, and the listener's answers go back the same way.
//
// The invariant CRC of a packet covers its addresses (IBTA A17.3.3), and a REQ of the connection manager contains them
// (IBTA 12.6.5 and A11.3.2), so the relay rewrites both. The CRC also covers the identification of an IPv4 packet,
// which the kernel chooses. The relay assumes 0, and receivers must accept other values, as softroce does.
package relay

import (
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"math/rand/v2"
	"net"
	"net/netip"
	"sync"
	"sync/atomic"
	"time"
)

// Port is the UDP port of RoCEv2.
const Port = 4791

// Faults are the shares of packets, from 0 to 1, that suffer each fault.
type Faults struct {
	Loss, Duplicate, Reorder float64
}

// longest is the maximum time for which a packet is held back so that others overtake it.
const longest = 2 * time.Millisecond

// Stats count packets.
type Stats struct {
	Carried, Lost, Duplicated, Reordered, Cut, Unknown uint64
}

// A Relay forwards packets between hosts and listeners.
type Relay struct {
	faults Faults
	seed   uint64

	hosts     map[netip.Addr]*side // by their own address
	listeners map[netip.Addr]*side // likewise
	readers   sync.WaitGroup
	closed    atomic.Bool

	carried, lost, duplicated, reordered, cut, unknown atomic.Uint64
}

// A side is a host or listener and the relay's address that represents it to the other side.
type side struct {
	own, proxy netip.Addr
	conn       *net.UDPConn // at proxy
	isCut      atomic.Bool
	deliver    func(from netip.Addr, packet []byte) // nil: by the other side's socket
}

// New returns a relay without ends.
func New(faults Faults, seed uint64) *Relay {
	return &Relay{faults: faults, seed: seed, hosts: map[netip.Addr]*side{}, listeners: map[netip.Addr]*side{}}
}

// AddHost adds a host, which targets know by its alias. It must be called before Start.
func (r *Relay) AddHost(own, alias netip.Addr) error { return r.add(r.hosts, own, alias) }

// AddListener adds a listener, which hosts know by its front. It must be called before Start.
func (r *Relay) AddListener(own, front netip.Addr) error { return r.add(r.listeners, own, front) }

// AddOutside adds a host that has no socket: deliver is called with the packets that a front sends to it. Packets that
// it sends are passed to Inject.
func (r *Relay) AddOutside(own, alias netip.Addr, deliver func(front netip.Addr, packet []byte)) error {
	if err := r.add(r.hosts, own, alias); err != nil {
		return err
	}
	r.hosts[own].deliver = deliver
	return nil
}

func (r *Relay) add(to map[netip.Addr]*side, own, proxy netip.Addr) error {
	conn, err := net.ListenUDP("udp", net.UDPAddrFromAddrPort(netip.AddrPortFrom(proxy, Port)))
	if err != nil {
		return fmt.Errorf("relay: %w", err)
	}
	_ = conn.SetReadBuffer(8 << 20) // limited by the kernel; packets that it drops are losses too
	to[own] = &side{own: own, proxy: proxy, conn: conn}
	return nil
}

// Start starts forwarding, which ends with Close.
func (r *Relay) Start() {
	n := uint64(0)
	start := func(at *side, from, to map[netip.Addr]*side) {
		n++
		random := rand.New(rand.NewPCG(r.seed, n))
		r.readers.Go(func() { r.read(at, from, random) })
	}
	for _, l := range r.listeners { // packets for a front come from hosts
		start(l, r.hosts, r.listeners)
	}
	for _, h := range r.hosts {
		start(h, r.listeners, r.hosts)
	}
}

// Close ends the relay.
func (r *Relay) Close() error {
	r.closed.Store(true)
	var errs []error
	for _, sides := range []map[netip.Addr]*side{r.hosts, r.listeners} {
		for _, s := range sides {
			errs = append(errs, s.conn.Close())
		}
	}
	r.readers.Wait()
	return errors.Join(errs...)
}

// Cut begins or ends the loss of all packets from and to a listener.
func (r *Relay) Cut(listener netip.Addr, cut bool) { r.listeners[listener].isCut.Store(cut) }

// Stats returns the current counters.
func (r *Relay) Stats() Stats {
	return Stats{r.carried.Load(), r.lost.Load(), r.duplicated.Load(), r.reordered.Load(), r.cut.Load(), r.unknown.Load()}
}

// read reads the packets that are sent to the address representing at, from the ends of the other side.
func (r *Relay) read(at *side, from map[netip.Addr]*side, random *rand.Rand) {
	buffer := make([]byte, 64<<10)
	for {
		n, source, err := at.conn.ReadFromUDPAddrPort(buffer)
		switch {
		case r.closed.Load():
			return
		case err != nil:
			continue // an ICMP error for an earlier packet, whose receiver is gone
		}
		sender := from[source.Addr().Unmap()]
		if sender == nil {
			r.unknown.Add(1)
			continue
		}
		r.carry(sender, at, buffer[:n], random)
	}
}

// Inject forwards a packet that an outside host has sent to a front. Only one goroutine may call it at a time, with its
// own random generator.
func (r *Relay) Inject(host, front netip.Addr, packet []byte, random *rand.Rand) {
	for _, l := range r.listeners {
		if h := r.hosts[host]; l.proxy == front && h != nil {
			r.carry(h, l, packet, random)
			return
		}
	}
	r.unknown.Add(1)
}

// carry applies the faults to a packet, rewrites it in place and sends it to its receiver.
func (r *Relay) carry(from, to *side, packet []byte, random *rand.Rand) {
	if from.isCut.Load() || to.isCut.Load() {
		r.cut.Add(1)
		return
	}
	copies := 1
	if random.Float64() < r.faults.Duplicate {
		copies = 2
		r.duplicated.Add(1)
	}
	rename(packet, from, to)
	Seal(packet, netip.AddrPortFrom(from.proxy, Port), netip.AddrPortFrom(to.own, Port))
	for range copies {
		switch {
		case random.Float64() < r.faults.Loss:
			r.lost.Add(1)
		case random.Float64() < r.faults.Reorder:
			r.reordered.Add(1)
			held := append([]byte(nil), packet...)
			time.AfterFunc(time.Duration(random.Int64N(int64(longest))), func() { r.send(from, to, held) })
		default:
			r.send(from, to, packet)
		}
	}
}

func (r *Relay) send(from, to *side, packet []byte) {
	r.carried.Add(1)
	if to.deliver != nil {
		to.deliver(from.proxy, packet)
		return
	}
	// An error belongs to an earlier packet, or there is no receiver.
	_, _ = from.conn.WriteToUDPAddrPort(packet, netip.AddrPortFrom(to.own, Port))
}

// Offsets and values in a packet, which begins with a base transport header.
const (
	bthSize  = 12
	mad      = bthSize + 8 // behind the datagram extended transport header
	madSize  = 256
	sumSize  = 4
	request  = mad + 24 // of a REQ: what follows the MAD's header
	gids     = request + 56
	private  = request + 140
	attrREQ  = 0x0010
	classCM  = 7
	sendOnly = 0x64 // UD SEND Only
)

// rename replaces the addresses in a REQ by those that its receiver knows. Other packets contain no addresses.
func rename(p []byte, from, to *side) {
	if len(p) != mad+madSize+sumSize || p[0] != sendOnly || p[mad+1] != classCM || binary.BigEndian.Uint16(p[mad+16:]) != attrREQ {
		return
	}
	local, remote := from.proxy.As16(), to.own.As16()
	copy(p[gids:], local[:])
	copy(p[gids+16:], remote[:])
	const source, destination = private + 4, private + 20 // of the RDMA CM's header
	if from.proxy.Is4() {
		clear(local[:12]) // the header holds an IPv4 address with zeroes before it
		clear(remote[:12])
	}
	copy(p[source:], local[:])
	copy(p[destination:], remote[:])
}

// Seal writes the invariant CRC at the end of a packet that is sent between these ends.
func Seal(p []byte, from, to netip.AddrPort) {
	if len(p) < bthSize+sumSize {
		return
	}
	end := len(p) - sumSize
	head := make([]byte, 0, 8+40+8+bthSize)
	head = append(head, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff)
	be := binary.BigEndian
	if from.Addr().Is4() {
		head = be.AppendUint16(append(head, 0x45, 0xff), uint16(20+8+len(p)))
		head = append(head, 0, 0, 0x40, 0, 0xff, 17, 0xff, 0xff)
	} else {
		head = be.AppendUint16(append(head, 0x6f, 0xff, 0xff, 0xff), uint16(8+len(p)))
		head = append(head, 17, 0xff)
	}
	head = append(append(head, from.Addr().AsSlice()...), to.Addr().AsSlice()...)
	head = be.AppendUint16(be.AppendUint16(head, from.Port()), to.Port())
	head = append(be.AppendUint16(head, uint16(8+len(p))), 0xff, 0xff)
	head = append(head, p[:bthSize]...)
	head[len(head)-bthSize+4] = 0xff
	sum := crc32.Update(crc32.ChecksumIEEE(head), crc32.IEEETable, p[bthSize:end])
	binary.LittleEndian.PutUint32(p[end:], sum)
}
