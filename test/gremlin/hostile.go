package main

import (
	"encoding/binary"
	"math/rand/v2"
	"net/netip"
	"time"

	"github.com/nvmeof-go/nvmeof/capsule"
	"github.com/nvmeof-go/nvmeof/test/gremlin/internal/packet"
	"github.com/nvmeof-go/nvmeof/test/gremlin/internal/peer"
)

// A hostile is a target with one namespace. It behaves correctly until a malice replaces one of its functions. It
// belongs to the goroutine of its endpoint.
type hostile struct {
	endpoint *peer.Endpoint
	random   *rand.Rand
	queues   map[*peer.Conn]*hostileQueue
	nqn      string
	port     netip.AddrPort

	ready bool // CC.EN

	// Functions that a malice may replace. A nil function changes nothing.
	request  func(m *packet.MAD, from netip.Addr) (answered bool)
	reply    func(m *packet.MAD)
	identify func(f capsule.Identify, b []byte)
	property func(p capsule.Property, value uint64) uint64
	page     func(g capsule.GetLogPage, b []byte)
	data     func(b []byte) []byte                                                   // changes the data of a Read
	send     func(q *hostileQueue, cmd *capsule.Command, r capsule.Completion) error // sends a response
	command  func(q *hostileQueue, cmd *capsule.Command) (answered bool, err error)
}

// A hostileQueue is a queue on the target's side.
type hostileQueue struct {
	*hostile
	conn     *peer.Conn
	discover bool
	admin    bool
	head     uint16
	last     capsule.Command // the previous command
}

const (
	hostileBlocks = 16384
	hostileBlock  = 4096
)

// content returns the initial content of n bytes of blocks, from the given one on.
func content(first capsule.LBA, n int) []byte {
	b := make([]byte, n)
	for i := 0; i+8 <= n; i += 8 {
		binary.LittleEndian.PutUint64(b[i:], uint64(first)*hostileBlock+uint64(i))
	}
	return b
}

func newHostile(at netip.AddrPort, nqn string, seed uint64) (*hostile, error) {
	e, err := peer.Open(at.Addr(), seed)
	if err != nil {
		return nil, err
	}
	h := &hostile{endpoint: e, random: e.Random, nqn: nqn, port: at}
	e.Port = at.Port()
	e.Request = h.connect
	h.behave()
	return h, nil
}

// behave resets the functions that malices replaced.
func (h *hostile) behave() {
	e, r, nqn, port := h.endpoint, h.random, h.nqn, h.port
	*h = hostile{endpoint: e, random: r, nqn: nqn, port: port, queues: map[*peer.Conn]*hostileQueue{}}
	e.Twist, e.Message = nil, nil
	for _, c := range e.Conns() {
		e.Forget(c)
	}
}

// connect handles a REQ.
func (h *hostile) connect(m *packet.MAD, from netip.Addr) {
	if h.request != nil && h.request(m, from) {
		return
	}
	for c, q := range h.queues {
		if c.Remote == uint32(m.Get(packet.LocalID)) && c.To == from { // a repeated REQ
			h.accept(q, m)
			return
		}
	}
	d, err := capsule.DecodeRequestData(m.Private()[packet.IPHeaderSize:])
	if err != nil {
		return
	}
	q := &hostileQueue{hostile: h, conn: h.endpoint.Accept(m, from), admin: d.QID == 0}
	q.conn.Deliver = q.take
	h.queues[q.conn] = q
	h.accept(q, m)
}

func (h *hostile) accept(q *hostileQueue, req *packet.MAD) {
	m := q.conn.REP(req)
	if h.reply != nil {
		h.reply(&m)
	}
	_ = h.endpoint.Send(q.conn.To, m.Datagram())
}

// take handles a command capsule.
func (q *hostileQueue) take(b []byte) error {
	cmd, err := capsule.DecodeCommand(b)
	if err != nil {
		return nil //nolint:nilerr // hosts are not tested here
	}
	q.head++
	defer func() { q.last = cmd }()
	if q.command != nil {
		if answered, err := q.command(q, &cmd); answered || err != nil {
			return err
		}
	}
	switch {
	case cmd.Opcode == capsule.Opcode(capsule.AdminFabrics):
		return q.fabrics(&cmd, b[capsule.CommandSize:])
	case q.admin:
		return q.administer(&cmd)
	}
	return q.io(&cmd)
}

// complete sends a response.
func (q *hostileQueue) complete(cmd *capsule.Command, result uint64, status capsule.Status) error {
	r := capsule.Completion{Result: result, SQHD: q.head % 32, CID: cmd.CID, Status: status}
	if q.send != nil {
		return q.send(q, cmd, r)
	}
	return q.respond(r)
}

func (q *hostileQueue) respond(r capsule.Completion) error {
	b := make([]byte, capsule.CompletionSize)
	r.Encode(b)
	return q.conn.Post(q.conn.Message(b)...)
}

// give writes data into the memory that a command describes, as much as fits, and completes the command.
func (q *hostileQueue) give(cmd *capsule.Command, b []byte) error {
	if n := int(cmd.SGL.Length()); n < len(b) {
		b = b[:n]
	}
	if len(b) > 0 {
		if err := q.conn.Write(cmd.SGL.Address, cmd.SGL.Key(), b); err != nil {
			return err
		}
	}
	return q.complete(cmd, 0, 0)
}

func (q *hostileQueue) fabrics(cmd *capsule.Command, data []byte) error {
	switch cmd.FabricsType() {
	case capsule.FabricsConnect:
		d, err := capsule.DecodeConnectData(data)
		if err != nil && q.admin { // the data have to be fetched
			return q.conn.Read(cmd.SGL.Address, cmd.SGL.Key(), capsule.ConnectDataSize, func(b []byte) error { return q.fabrics(cmd, b) })
		}
		q.discover = d.SubNQN.Is(capsule.DiscoveryNQN)
		return q.complete(cmd, capsule.ConnectResponse{CNTLID: 1}.Result(), 0)
	case capsule.FabricsPropertyGet:
		p := cmd.Property()
		v := q.value(capsule.PropertyOffset(p.Offset))
		if q.property != nil {
			v = q.property(p, v)
		}
		return q.complete(cmd, v, 0)
	case capsule.FabricsPropertySet:
		if p := cmd.Property(); p.Offset == uint32(capsule.PropertyCC) {
			q.ready = capsule.CC(p.Value).Enable()
		}
	}
	return q.complete(cmd, 0, 0)
}

func (h *hostile) value(p capsule.PropertyOffset) uint64 {
	switch p {
	case capsule.PropertyCAP:
		return uint64(capsule.CAPFields{MQES: 127, CQR: true, TO: 4, CSS: capsule.CSSNVM}.CAP())
	case capsule.PropertyVS:
		return uint64(capsule.MakeVersion(2, 0, 0))
	case capsule.PropertyCSTS:
		if h.ready {
			return uint64(capsule.CSTSReady)
		}
		return uint64(capsule.CSTS(0).WithShutdown(2))
	}
	return 0
}

func (q *hostileQueue) administer(cmd *capsule.Command) error {
	switch capsule.AdminOpcode(cmd.Opcode) {
	case capsule.AdminIdentify:
		b, f := make([]byte, capsule.IdentifySize), cmd.Identify()
		q.identity(f, b)
		if q.identify != nil {
			q.identify(f, b)
		}
		return q.give(cmd, b)
	case capsule.AdminGetLogPage:
		g := cmd.GetLogPage()
		all := make([]byte, 4096)
		if g.LID == capsule.LogDiscovery {
			q.listing(all)
		}
		b := make([]byte, min(g.Length, 1<<20))
		copy(b, all[min(g.LPO, uint64(len(all))):])
		if q.page != nil {
			q.page(g, b)
		}
		return q.give(cmd, b)
	case capsule.AdminSetFeatures:
		return q.complete(cmd, uint64(cmd.CDW11), 0)
	case capsule.AdminAsyncEvent:
		return nil
	}
	return q.complete(cmd, 0, 0)
}

// identity fills in Identify data.
func (q *hostileQueue) identity(f capsule.Identify, b []byte) {
	switch f.CNS {
	case capsule.CNSController:
		c := capsule.IdentifyController{
			MDTS: 5, CNTLID: 1, VER: capsule.MakeVersion(2, 0, 0), CNTRLTYPE: 1, ACL: 3, AERL: 3, KAS: 10, SQES: 0x66, CQES: 0x44, MAXCMD: 32,
			NN: 4, MNAN: 4, ONCS: capsule.ONCSWriteZeroes, VWC: 1, SGLS: capsule.SGLSSupported | capsule.SGLSKeyed | capsule.SGLSOffset,
			SubNQN: capsule.MakeNQNField(q.nqn), IOCCSZ: 4 + 256, IORCSZ: 1, MSDBD: 1,
		}
		if q.discover {
			c.SubNQN, c.CNTRLTYPE = capsule.MakeNQNField(capsule.DiscoveryNQN), 2
		}
		capsule.PutText(c.SN[:], "GREMLIN")
		capsule.PutText(c.MN[:], "gremlin")
		capsule.PutText(c.FR[:], "1")
		c.Encode(b)
	case capsule.CNSNamespace:
		n := capsule.IdentifyNamespace{NSZE: hostileBlocks, NCAP: hostileBlocks, NUSE: hostileBlocks, NGUID: [16]byte{1, 2, 3}}
		n.LBAF[0] = capsule.LBAFormat{LBADS: 12}
		n.Encode(b)
	case capsule.CNSActiveNamespaces:
		capsule.PutNamespaceList(b, []capsule.NSID{1})
	case capsule.CNSDescriptors:
		capsule.PutDescriptor(b, capsule.DescriptorNGUID, []byte{1, 2, 3, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0})
	}
}

// listing fills in the discovery log page.
func (h *hostile) listing(b []byte) {
	capsule.DiscoveryHeader{GENCTR: 1, NUMREC: 1}.Encode(b)
	family := capsule.FamilyIPv4
	if h.port.Addr().Is6() {
		family = capsule.FamilyIPv6
	}
	e := capsule.DiscoveryEntry{TRTYPE: 1, ADRFAM: family, SUBTYPE: capsule.SubsystemNVM, PORTID: 1, CNTLID: capsule.ControllerIDDynamic, ASQSZ: 32,
		SubNQN: capsule.MakeNQNField(h.nqn), RDMAQPType: capsule.RDMAQPConnected, RDMAPRType: capsule.RDMAProviderRoCEv2, RDMACMS: capsule.RDMAConnectionCM}
	capsule.PutText(e.TRADDR[:], h.port.Addr().String())
	capsule.PutText(e.TRSVCID[:], "4420")
	e.Encode(b[capsule.DiscoveryHeaderSize:])
}

func (q *hostileQueue) io(cmd *capsule.Command) error {
	switch capsule.IOOpcode(cmd.Opcode) {
	case capsule.IORead:
		rw := cmd.ReadWrite()
		b := content(rw.SLBA, int(rw.Blocks)*hostileBlock)
		if q.data != nil {
			b = q.data(b)
		}
		return q.give(cmd, b)
	case capsule.IOWrite:
		if kind, _ := cmd.SGL.Classify(); kind == capsule.SGLKindInCapsule {
			break
		}
		held := *cmd
		return q.conn.Read(cmd.SGL.Address, cmd.SGL.Key(), int(cmd.SGL.Length()), func([]byte) error { return q.complete(&held, 0, 0) })
	}
	return q.complete(cmd, 0, 0)
}

// serve serves hosts for a while.
func (h *hostile) serve(d time.Duration) error { return h.endpoint.Poll(d) }
