package rc

import (
	"bytes"
	"slices"
	"testing"
	"time"

	"github.com/nvmeof-go/nvmeof/rdmatransport"
	"github.com/nvmeof-go/nvmeof/rdmatransport/softroce/internal/wire"
	"github.com/nvmeof-go/nvmeof/test/golden"
)

// stepSize is the length of a step of FuzzPackets: what the peer sends, or what else happens.
//
//	0    an index of fuzzOpcodes, or from 0xd0 on what the owner of the queue pair does
//	1    PSN of a request from the expected one, of a response from the oldest not acknowledged
//	2    stepAckReq and so on; the index of a region in bits 4 to 6
//	3    syndrome
//	4-5  bytes of payload, or of what is posted
//	6-7  bytes of the whole message; the highest bit stands for a long one
//	8    where in the region, in units of 16 bytes
//	9    MSN, immediate, operand, content of the payload, or milliseconds
const stepSize = 10

const (
	stepAckReq = 1 << iota
	stepFarPSN
	stepWrongPKey
	stepAligned // whole words of payload without pad, marked for congestion
)

var fuzzOpcodes = []wire.Opcode{
	wire.RCSendFirst, wire.RCSendMiddle, wire.RCSendLast, wire.RCSendLastImm, wire.RCSendOnly, wire.RCSendOnlyImm,
	wire.RCWriteFirst, wire.RCWriteMiddle, wire.RCWriteLast, wire.RCWriteLastImm, wire.RCWriteOnly, wire.RCWriteOnlyImm,
	wire.RCReadRequest, wire.RCReadResponseFirst, wire.RCReadResponseMiddle, wire.RCReadResponseLast, wire.RCReadResponseOnly,
	wire.RCAck, wire.RCAtomicAck, wire.RCCompareSwap, wire.RCFetchAdd, wire.RCSendLastInv, wire.RCSendOnlyInv,
	wire.UDSendOnly, wire.CNP, 0x15, 0x1f,
}

// A fuzzed queue pair is p.a of a pair without another end: what it sends is lost.
type fuzzed struct {
	*pair
	q         *side
	regions   []*region // regions that the peer may use, with decreasing rights
	readOnly  []byte    // memory that it may only read
	forbidden []byte    // memory that it may not read
	posted    [2]uint64 // sends and receives, which have IDs from 0 on
	done      [2]uint64
}

func newFuzzed(t *testing.T, own bool) *fuzzed {
	p := newPair(t, pairConfig{mtu: 256, own: own, sends: 8, recvs: 8, budget: 64 << 10, rnrRetry: 7})
	p.drop = func(*side, *wire.Packet) bool { return true }
	f := &fuzzed{pair: p, q: p.a, readOnly: pattern(4096, 3), forbidden: pattern(4096, 4)}
	const all = rdmatransport.AccessLocalWrite | rdmatransport.AccessRemoteRead | rdmatransport.AccessRemoteWrite | rdmatransport.AccessRemoteAtomic
	for _, r := range []struct {
		mem    []byte
		access rdmatransport.Access
	}{
		{make([]byte, 4096), all}, {make([]byte, 64), all}, {make([]byte, 4096), rdmatransport.AccessLocalWrite | rdmatransport.AccessRemoteWrite},
		{bytes.Clone(f.readOnly), rdmatransport.AccessRemoteRead}, {bytes.Clone(f.forbidden), 0}, {nil, all},
	} {
		f.regions = append(f.regions, f.q.keys.register(r.mem, r.access))
	}
	return f
}

func (f *fuzzed) do(step []byte) {
	size := int(step[4])<<8 | int(step[5])
	switch kind := step[0]; {
	case kind >= 0xf8:
		for range step[9] {
			f.pair.step(f.now + time.Duration(step[9])*time.Millisecond)
		}
	case kind >= 0xf0:
		f.now += time.Duration(step[9]) * time.Millisecond
		f.pair.step(f.now)
	case kind >= 0xe8:
		f.postRecv(size % 1025)
	case kind >= 0xd0:
		f.postSend(rdmatransport.Opcode(kind-0xd0)%(rdmatransport.OpInvalidate+1), step, size%4097)
	default:
		f.receive(step, size)
	}
	f.pair.flush(f.q)
}

func (f *fuzzed) postRecv(size int) {
	wr := rdmatransport.RecvWR{ID: f.posted[1]}
	if size > 0 {
		r := f.q.keys.regions[0]
		wr.SGL = []rdmatransport.SGE{{Buf: make([]byte, size), LKey: rdmatransport.LKey(r.key)}}
	}
	if f.q.PostRecv([]rdmatransport.RecvWR{wr}) == nil {
		f.posted[1]++
	}
}

func (f *fuzzed) postSend(op rdmatransport.Opcode, step []byte, size int) {
	wr := rdmatransport.SendWR{ID: f.posted[0], Op: op, Flags: rdmatransport.FlagSignaled, RemoteAddr: 1 << 40, RKey: 77}
	if step[2]&1 != 0 {
		wr.Flags |= rdmatransport.FlagFence
	}
	if step[2]&2 != 0 {
		wr.Flags |= rdmatransport.FlagImmediate
	}
	if op == rdmatransport.OpCompareSwap || op == rdmatransport.OpFetchAdd {
		size = 8
	}
	if size > 0 {
		wr.SGL = []rdmatransport.SGE{{Buf: make([]byte, size), LKey: rdmatransport.LKey(f.regions[0].key)}}
	}
	if f.q.PostSend([]rdmatransport.SendWR{wr}) == nil {
		f.posted[0]++
	}
}

// receive gives the queue pair a packet that was encoded and decoded.
func (f *fuzzed) receive(step []byte, size int) {
	op := fuzzOpcodes[int(step[0])%len(fuzzOpcodes)]
	r := f.regions[int(step[2]>>4)%len(f.regions)]
	va := r.iova + uint64(int64(int8(step[8]))*16)
	long := uint32(step[6])<<8 | uint32(step[7])
	if long&0x8000 != 0 {
		long <<= 16
	}
	p := wire.Packet{Opcode: op, PKey: 0xffff, DestQPN: f.q.QPN(), AckReq: step[2]&stepAckReq != 0,
		RETH:      wire.RETH{VA: va, RKey: rdmatransport.RKey(r.key), DMALen: long},
		AtomicETH: wire.AtomicETH{VA: va, RKey: rdmatransport.RKey(r.key), SwapAdd: uint64(step[9])},
		AETH:      wire.AETH{Syndrome: wire.Syndrome(step[3]), MSN: wire.MSN(step[9])},
		Imm:       uint32(step[9]), InvKey: rdmatransport.RKey(r.key)}
	p.PSN = f.q.resp.expected
	if op.Flags()&wire.FlagResponse != 0 {
		p.PSN = f.q.req.acked
	}
	delta := uint32(int32(int8(step[1])))
	if step[2]&stepFarPSN != 0 {
		delta <<= 16
	}
	p.PSN = p.PSN.Add(delta)
	if step[2]&stepWrongPKey != 0 {
		p.PKey = 0x1234
	}
	payload := bytes.Repeat([]byte{step[9]}, size%(256+8))
	if op.Flags()&wire.FlagPayload == 0 && op != wire.RCAck {
		payload = nil
	}
	if step[2]&stepAligned != 0 {
		payload = payload[:len(payload)&^3]
	}
	p.Pad = uint8(-len(payload) & 3)
	b := append(wire.AppendHeaders(nil, &p), payload...)
	b = append(b, make([]byte, int(p.Pad)+wire.ICRCSize)...)
	var got wire.Packet
	if wire.Parse(b, &got) == wire.OK || op.Flags() == 0 {
		if step[2]&stepAligned != 0 {
			f.q.Marked(f.now, &got)
		}
		f.q.Receive(f.now, &got)
	}
}

// check requires that every work request completes at most once and in order, that the peer changes only memory that
// it has a right to, and that no more of its packets are kept than allowed.
func (f *fuzzed) check(t *testing.T) {
	for _, c := range f.q.poll() {
		way := b2i(c.Op == rdmatransport.OpRecv || c.Op == rdmatransport.OpRecvWriteImm)
		if c.ID != f.done[way] || c.ID >= f.posted[way] {
			t.Fatalf("%+v of way %d, want %d of %d", c, way, f.done[way], f.posted[way])
		}
		f.done[way]++
	}
	if !bytes.Equal(f.regions[3].mem, f.readOnly) || !bytes.Equal(f.regions[4].mem, f.forbidden) {
		t.Fatal("memory without the right was written")
	}
	if f.q.store.Lent() > f.q.store.Limit || f.q.budget.Used() < 0 {
		t.Fatalf("%d packets kept, %d bytes of the budget", f.q.store.Lent(), f.q.budget.Used())
	}
}

// end requires that a silent peer is given up and that no resources are left.
func (f *fuzzed) end(t *testing.T) {
	for n := 0; f.q.Deadline() != Never; n++ {
		if n > 10000 {
			t.Fatalf("the queue pair does not come to rest: %v", f.q.Deadline()-f.now)
		}
		f.pair.step(f.q.Deadline())
		f.check(t)
	}
	if sent := f.q.State() == StateConnected && f.posted[0] > f.done[0]; sent {
		t.Fatalf("%d requests wait for nothing", f.posted[0]-f.done[0])
	}
	f.q.Fail(rdmatransport.ErrClosed)
	f.check(t)
	if f.done != f.posted {
		t.Fatalf("%d of %d completions", f.done, f.posted)
	}
	f.checkQuiet(t.Errorf)
}

// stepOf converts a recorded packet to a step.
func stepOf(p *wire.Packet) []byte {
	i := slices.Index(fuzzOpcodes, p.Opcode)
	if i < 0 {
		return nil
	}
	size, long := len(p.Payload), min(p.RETH.DMALen, 4096)
	s := []byte{byte(i), 0, 0, byte(p.AETH.Syndrome), byte(size >> 8), byte(size), byte(long >> 8), byte(long), 0, byte(p.AETH.MSN)}
	if p.AckReq {
		s[2] = stepAckReq
	}
	return s
}

// FuzzPackets sends any sequence of packets to a queue pair that has requests and receives of its own. The corpus
// starts with the captures, from both ends.
func FuzzPackets(f *testing.F) {
	recv := []byte{0xe8, 0, 0, 0, 4, 0, 0, 0, 0, 0}
	send := func(op rdmatransport.Opcode, size int) []byte {
		return []byte{0xd0 + byte(op), 0, 0, 0, byte(size >> 8), byte(size), 0, 0, 0, 0}
	}
	for _, name := range []string{"verbs-rping", "verbs-fetch-and-add", "verbs-compare-and-swap", "nvme-connect", "nvme-io", "nvme-auth"} {
		packets, err := golden.Load(name)
		if err != nil {
			f.Fatal(err)
		}
		var ways [2][]byte
		for i := range packets {
			var p wire.Packet
			if wire.Parse(packets[i].Payload, &p) != wire.OK || len(ways[0])+len(ways[1]) > 100*stepSize {
				continue
			}
			way := b2i(packets[i].Src.Addr().Less(packets[i].Dst.Addr()))
			ways[way] = append(ways[way], stepOf(&p)...)
			if flags := p.Opcode.Flags(); flags&wire.FlagSend != 0 {
				ways[way] = append(recv, ways[way]...)
				ways[1-way] = append(ways[1-way], send(rdmatransport.OpSend, len(p.Payload))...)
			} else if flags&wire.FlagReadRequest != 0 {
				ways[1-way] = append(ways[1-way], send(rdmatransport.OpRead, int(p.RETH.DMALen))...)
			}
		}
		f.Add(ways[0], false)
		f.Add(ways[1], true)
	}
	for _, answers := range []string{
		"\x11\x00\x00\x1f\x00\x00\x00\x00\x00\x01", "\x11\x00\x08\x1f\x00\x04\x00\x00\x00\x02", // ACK, with a bitmap
		"\x11\x01\x00\x60\x00\x00\x00\x00\x00\x00", "\x11\x01\x00\x21\x00\x00\x00\x00\x00\x00", "\x11\x00\x00\x62\x00\x00\x00\x00\x00\x00", // NAKs
		"\x10\x00\x00\x1f\x00\x64\x00\x00\x00\x00", "\x0d\x00\x00\x1f\x01\x00\x00\x00\x00\x00", "\x0f\x01\x00\x1f\x00\x64\x00\x00\x00\x00", // READ responses, the last one early
		"\x12\x00\x00\x1f\x00\x00\x00\x00\x00\x05", "\x18\x00\x08\x00\x00\x00\x00\x00\x00\x00", // atomic acknowledge, CNP
		"\x04\x01\x01\x00\x00\x08\x00\x00\x00\x00", "\x0c\x02\x01\x00\x00\x00\x04\x00\x00\x00", "\x0a\x00\x09\x00\x00\x08\x00\x08\x00\x00", // requests, two of them early
		"\xf0\x00\x00\x00\x00\x00\x00\x00\x00\xff", "\xf8\x00\x00\x00\x00\x00\x00\x00\x00\x20", // time
	} {
		for _, op := range []rdmatransport.Opcode{rdmatransport.OpSend, rdmatransport.OpRead, rdmatransport.OpWrite, rdmatransport.OpFetchAdd} {
			f.Add(slices.Concat(recv, send(op, 600), send(op, 100), []byte(answers), []byte(answers)), op == rdmatransport.OpRead)
		}
	}
	f.Fuzz(func(t *testing.T, script []byte, own bool) {
		q := newFuzzed(t, own)
		for ; len(script) >= stepSize; script = script[stepSize:] {
			q.do(script)
			q.check(t)
		}
		q.end(t)
	})
}
