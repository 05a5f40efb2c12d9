package rc

import (
	"bytes"
	"fmt"
	"net/netip"
	"strings"
	"testing"
	"time"

	"github.com/nvmeof-go/nvmeof/rdmatransport"
	"github.com/nvmeof-go/nvmeof/rdmatransport/softroce/internal/wire"
	"github.com/nvmeof-go/nvmeof/test/golden"
)

// TestGoldenReplay plays one side of recorded conversations between two Linux kernels. The engine gets the other
// side's packets and the messages that the recorded side had to send. It must send the recorded packets: opcodes,
// PSNs, headers, payloads, and the final MSN. The number and time of acknowledgements may differ.
func TestGoldenReplay(t *testing.T) {
	names := append(golden.Names("verbs-"), "nvme-connect", "nvme-io", "nvme-io-mtu4096", "nvme-discover", "nvme-reset", "nvme-ipv6")
	for _, name := range names {
		packets, err := golden.Load(name)
		if err != nil {
			t.Fatal(err)
		}
		conversations := split2(t, name, packets)
		if len(conversations) == 0 {
			t.Fatalf("%s: no connection found", name)
		}
		for i, c := range conversations {
			for side := range 2 {
				t.Run(fmt.Sprintf("%s/%d/%d", name, i, side), func(t *testing.T) { c.replay(t, side) })
			}
		}
	}
}

// conversation is one recorded connection. Side 0 is active.
type conversation struct {
	qpn     [2]rdmatransport.QPN
	psn     [2]wire.PSN
	side0   netip.Addr
	midway  bool // the recording began after the connection was established
	mtu     int
	packets []recorded
}

type recorded struct {
	from int
	at   time.Duration
	pkt  wire.Packet
}

// stream is everything one host sent to one queue pair of another.
type stream struct {
	src, dst netip.Addr
	qpn      rdmatransport.QPN
}

// split2 returns the connections and their packets. Connections whose exchange is in the capture start with its PSNs;
// others start with the first complete request.
func split2(t *testing.T, name string, packets []golden.Packet) []*conversation {
	parsed := make([]wire.Packet, len(packets))
	streamOf := make([]stream, len(packets))
	for i := range packets {
		if f := wire.Parse(packets[i].Payload, &parsed[i]); f != wire.OK {
			t.Fatalf("packet %d: %v", packets[i].Number, f)
		}
		streamOf[i] = stream{packets[i].Src.Addr(), packets[i].Dst.Addr(), parsed[i].DestQPN}
	}
	open := map[stream]*conversation{}
	requests := map[wire.CommID]int{}
	var all []*conversation
	add := func(c *conversation, s0, s1 stream) {
		c.qpn = [2]rdmatransport.QPN{s1.qpn, s0.qpn}
		c.side0 = s0.src
		open[s0], open[s1] = c, c
		all = append(all, c)
	}
	for i := range packets {
		p := &parsed[i]
		if p.DestQPN != 1 {
			if open[streamOf[i]] == nil {
				if s, ok := partner(parsed[i:], streamOf[i:]); ok && open[s] == nil {
					add(&conversation{mtu: recordedMTU(name), midway: true}, streamOf[i], s)
				}
			}
			if c := open[streamOf[i]]; c != nil {
				c.packets = append(c.packets, recorded{b2i(packets[i].Src.Addr() != c.side0), packets[i].Time, *p})
			}
			continue
		}
		mad, h, _ := wire.ParseMAD(p.Payload)
		switch h.Attribute {
		case wire.AttrREQ:
			var req wire.REQ
			req.Parse(mad)
			requests[req.LocalID] = i
		case wire.AttrREP:
			var rep wire.REP
			rep.Parse(mad)
			j, ok := requests[rep.RemoteID]
			if !ok {
				continue
			}
			delete(requests, rep.RemoteID)
			req := requestIn(&parsed[j])
			// "Starting PSN" is where the *remote* side begins (IBTA 12.7.31).
			client, server := packets[j].Src.Addr(), packets[j].Dst.Addr()
			add(&conversation{mtu: req.PathMTU.Bytes(), psn: [2]wire.PSN{rep.StartingPSN, req.StartingPSN}},
				stream{client, server, rep.QPN}, stream{server, client, req.QPN})
		}
	}
	for _, c := range all {
		if c.midway {
			c.trim()
		}
		c.mend(t, name)
	}
	return all
}

// recordedMTU returns the path MTU of a capture by its name.
func recordedMTU(name string) int {
	if strings.Contains(name, "mtu4096") {
		return 4096
	}
	return 1024
}

func requestIn(p *wire.Packet) (req wire.REQ) {
	mad, _, _ := wire.ParseMAD(p.Payload)
	req.Parse(mad)
	return req
}

// mend adds a SEND of 64 zero bytes where the recorder lost a packet whose acknowledgement was recorded.
func (c *conversation) mend(t *testing.T, name string) {
	next := c.psn
	for i := 0; i < len(c.packets); i++ {
		r := c.packets[i]
		f := r.pkt.Opcode.Flags()
		if f&wire.FlagRequest == 0 || r.pkt.PSN.Before(next[r.from]) {
			continue
		}
		if r.pkt.PSN == next[r.from].Add(1) && f&wire.FlagStart != 0 {
			t.Logf("%s: the recording lacks the request with PSN %#x", name, next[r.from])
			lost := recorded{r.from, c.packets[i-1].at, wire.Packet{Opcode: wire.RCSendOnly, PSN: next[r.from], DestQPN: r.pkt.DestQPN, PKey: 0xffff, AckReq: true, Payload: make([]byte, 64)}}
			c.packets = append(c.packets[:i:i], append([]recorded{lost}, c.packets[i:]...)...)
			r, f = lost, lost.pkt.Opcode.Flags()
		}
		n := uint32(1)
		if f&wire.FlagReadRequest != 0 {
			n = max(1, (r.pkt.RETH.DMALen+uint32(c.mtu)-1)/uint32(c.mtu))
		}
		next[r.from] = r.pkt.PSN.Add(n)
	}
}

// partner finds the opposite stream of the first packet's, a request, by the
// acknowledgement or response with its PSN.
func partner(pkts []wire.Packet, of []stream) (stream, bool) {
	if pkts[0].Opcode.Flags()&wire.FlagRequest == 0 {
		return stream{}, false
	}
	for i := range pkts {
		if of[i].src == of[0].dst && of[i].dst == of[0].src && pkts[i].Opcode.Flags()&wire.FlagResponse != 0 && pkts[i].PSN == pkts[0].PSN {
			return of[i], true
		}
	}
	return stream{}, false
}

// trim removes packets of messages that began before the recording, and sets the starting PSNs from the rest.
func (c *conversation) trim() {
	var started [2]bool
	var keep []recorded
	for _, r := range c.packets {
		f := r.pkt.Opcode.Flags()
		if f&wire.FlagRequest != 0 {
			if !started[r.from] && f&wire.FlagStart == 0 {
				continue
			}
			if !started[r.from] {
				started[r.from], c.psn[r.from] = true, r.pkt.PSN
			}
		} else if peer := 1 - r.from; !started[peer] || r.pkt.PSN.Before(c.psn[peer]) {
			continue
		}
		keep = append(keep, r)
	}
	c.packets = keep
}

// firstMSN returns the MSN with which side me's responder starts: 0, or its first recorded MSN minus the messages
// that it covers.
func (c *conversation) firstMSN(me int) wire.MSN {
	if !c.midway {
		return 0
	}
	for _, r := range c.packets {
		if r.from != me || r.pkt.Opcode.Flags()&wire.FlagHasAETH == 0 {
			continue
		}
		messages := 0
		for _, p := range c.packets {
			if p.from != me && p.pkt.Opcode.Flags()&wire.FlagRequest != 0 && p.pkt.Opcode.Flags()&wire.FlagEnd != 0 && p.pkt.PSN.Diff(r.pkt.PSN) <= 0 {
				messages++
			}
		}
		return wire.MSN(r.pkt.AETH.MSN.Diff(wire.MSN(messages))) & 0xffffff
	}
	return 0
}

// stage is the memory of the replayed side: for every key the data that the peer reads, and room for what it writes.
type stage struct {
	mem map[rdmatransport.RKey]map[uint64][]byte
}

func (s *stage) Local(rdmatransport.LKey, []byte, bool) bool { return true }
func (s *stage) Invalidate(rdmatransport.RKey) bool          { return true }
func (s *stage) Live(rdmatransport.RKey) bool                { return true }
func (s *stage) Bind(rdmatransport.Window, rdmatransport.SGE, rdmatransport.Access) bool {
	return true
}

func (s *stage) Written(rdmatransport.RKey, uint32) {}

func (s *stage) Remote(key rdmatransport.RKey, va uint64, n uint32, need rdmatransport.Access) ([]byte, bool) {
	for base, b := range s.mem[key] {
		if va >= base && wire.InRange(va-base, uint64(n), uint64(len(b))) {
			return b[va-base:][:n], true
		}
	}
	return nil, false
}

func (s *stage) put(key rdmatransport.RKey, va uint64, b []byte) {
	if s.mem[key] == nil {
		s.mem[key] = map[uint64][]byte{}
	}
	s.mem[key][va] = b
}

func (c *conversation) replay(t *testing.T, me int) {
	var counters Counters
	keys := &stage{mem: map[rdmatransport.RKey]map[uint64][]byte{}}
	q := New(Config{QPN: c.qpn[me], MaxSend: 4096, MaxRecv: 4096, MaxSGE: 1, Keys: keys, Completions: new(Completions), Counters: &counters, Store: &Store{Limit: 64}})
	if err := q.Connect(Peer{QPN: c.qpn[1-me], SendPSN: c.psn[me], RecvPSN: c.psn[1-me], PathMTU: c.mtu, PKey: 0xffff,
		ReadsOut: 128, ReadsIn: 128, RetryCount: 7, RNRRetryCount: 7, AckTimeout: time.Second, MaxWindow: 1 << 30}); err != nil {
		t.Fatal(err)
	}
	q.rtt.sends.window, q.rtt.reads.window = 1<<30, 1<<30
	q.resp.msn = c.firstMSN(me)
	into := []rdmatransport.SGE{{Buf: make([]byte, 65536)}} // used by all receives: the data is not checked
	for range 1024 {
		q.PostRecv([]rdmatransport.RecvWR{{SGL: into}})
	}
	out := NewOutbox(256)
	msn := map[wire.PSN]wire.MSN{} // after the request packet with that PSN
	var got []wire.Packet
	collect := func(now time.Duration) {
		for more := true; more; {
			more = q.Transmit(now, out)
			for i := range out.Pkts {
				got = append(got, decode(t, &out.Pkts[i]))
			}
			out.Reset()
		}
	}
	for i := range c.packets {
		r := &c.packets[i]
		if r.from == me {
			c.postRecorded(t, q, i)
			collect(r.at)
			continue
		}
		c.preset(keys, i, me)
		p := r.pkt
		q.Receive(r.at, &p)
		msn[q.resp.expected.Sub(1)] = q.MSN()
		collect(r.at)
		if q.State() == StateError {
			t.Fatalf("packet %d of the peer ended the queue pair: %v", i, q.Err())
		}
	}
	c.compare(t, got, me)
	for i := len(c.packets) - 1; i >= 0; i-- {
		if r := c.packets[i]; r.from == me && r.pkt.Opcode == wire.RCAck {
			if got, ok := msn[r.pkt.PSN]; !ok || got != r.pkt.AETH.MSN {
				t.Errorf("MSN %d at PSN %#x, recorded %d", got, r.pkt.PSN, r.pkt.AETH.MSN)
			}
			break
		}
	}
}

func decode(t *testing.T, o *Out) wire.Packet {
	b := append([]byte(nil), o.Header[:o.HLen]...)
	for _, piece := range o.Pieces[:o.NPieces] {
		b = append(b, piece...)
	}
	b = append(b, make([]byte, int(o.Pad)+4)...)
	var p wire.Packet
	if f := wire.Parse(b, &p); f != wire.OK {
		t.Fatal(f)
	}
	return p
}

// postRecorded posts the message that starts with recorded packet i.
func (c *conversation) postRecorded(t *testing.T, q *QP, i int) {
	first := &c.packets[i].pkt
	flags := first.Opcode.Flags()
	if flags&wire.FlagRequest == 0 || flags&wire.FlagStart == 0 || first.PSN.Before(q.req.next) {
		return // a response, a continuation, or a repetition
	}
	payload, last := c.message(i)
	if last.Opcode.Flags()&wire.FlagEnd == 0 {
		return // the recording ends within the message
	}
	wr := rdmatransport.SendWR{Flags: rdmatransport.FlagSignaled, RemoteAddr: first.RETH.VA, RKey: first.RETH.RKey, Imm: last.Imm, InvalidateKey: last.InvKey}
	if last.Opcode.Flags()&wire.FlagHasImm != 0 {
		wr.Flags |= rdmatransport.FlagImmediate
	}
	if last.Opcode.Flags()&wire.FlagHasInv != 0 {
		wr.Flags |= rdmatransport.FlagInvalidate
	}
	switch {
	case flags&wire.FlagSend != 0:
		wr.Op = rdmatransport.OpSend
	case flags&wire.FlagWrite != 0:
		wr.Op = rdmatransport.OpWrite
	case flags&wire.FlagReadRequest != 0:
		wr.Op, payload = rdmatransport.OpRead, make([]byte, first.RETH.DMALen)
	case flags&wire.FlagAtomic != 0:
		wr.Op, payload = rdmatransport.OpFetchAdd, make([]byte, 8)
		wr.RemoteAddr, wr.RKey, wr.Operand, wr.Compare = first.AtomicETH.VA, first.AtomicETH.RKey, first.AtomicETH.SwapAdd, first.AtomicETH.Compare
		if first.Opcode == wire.RCCompareSwap {
			wr.Op = rdmatransport.OpCompareSwap
		}
	}
	wr.SGL = []rdmatransport.SGE{{Buf: payload}}
	if err := q.PostSend([]rdmatransport.SendWR{wr}); err != nil {
		t.Fatal(err)
	}
}

// message joins the payload of the request message that starts at packet i.
func (c *conversation) message(i int) (payload []byte, last *wire.Packet) {
	want := c.packets[i].pkt.PSN
	for j := i; j < len(c.packets); j++ {
		p := &c.packets[j].pkt
		if c.packets[j].from != c.packets[i].from || p.PSN != want || p.Opcode.Flags()&wire.FlagRequest == 0 {
			continue
		}
		payload = append(payload, p.Payload...)
		last = p
		if p.Opcode.Flags()&wire.FlagEnd != 0 {
			break
		}
		want = want.Add(1)
	}
	return payload, last
}

// preset prepares the memory that the peer's packet i addresses: the data that the recorded side returned for a READ
// or atomic, or room for a WRITE.
func (c *conversation) preset(keys *stage, i, me int) {
	p := &c.packets[i].pkt
	flags := p.Opcode.Flags()
	switch {
	case flags&wire.FlagReadRequest != 0:
		var b []byte
		want := p.PSN
		for j := i; j < len(c.packets) && len(b) < int(p.RETH.DMALen); j++ {
			if r := &c.packets[j]; r.from == me && r.pkt.PSN == want && r.pkt.Opcode.Flags()&wire.FlagReadResponse != 0 {
				b = append(b, r.pkt.Payload...)
				want = want.Add(1)
			}
		}
		b = append(b, make([]byte, int(p.RETH.DMALen)-len(b))...) // the capture may end within the message
		keys.put(p.RETH.RKey, p.RETH.VA, b)
	case flags&wire.FlagWrite != 0 && flags&wire.FlagHasRETH != 0:
		keys.put(p.RETH.RKey, p.RETH.VA, make([]byte, p.RETH.DMALen))
	case flags&wire.FlagAtomic != 0:
		for j := i; j < len(c.packets); j++ {
			if r := &c.packets[j]; r.from == me && r.pkt.PSN == p.PSN && r.pkt.Opcode == wire.RCAtomicAck {
				word := make([]byte, 8)
				storeAtomicResult([]rdmatransport.SGE{{Buf: word}}, r.pkt.AtomicAck)
				keys.put(p.AtomicETH.RKey, p.AtomicETH.VA, word)
				return
			}
		}
		keys.put(p.AtomicETH.RKey, p.AtomicETH.VA, make([]byte, 8))
	}
}

// compare compares requests and responses, each in order, with the recorded ones, without acknowledgements. The
// capture may end before the last ones.
func (c *conversation) compare(t *testing.T, got []wire.Packet, me int) {
	for _, kind := range []wire.OpFlags{wire.FlagRequest, wire.FlagReadResponse | wire.FlagAtomicAck} {
		var have, want []wire.Packet
		for _, p := range got {
			if p.Opcode.Flags()&kind != 0 {
				have = append(have, p)
			}
		}
		for _, r := range c.packets {
			if r.from == me && r.pkt.Opcode.Flags()&kind != 0 {
				want = append(want, r.pkt)
			}
		}
		if kind == wire.FlagRequest {
			want = wholeMessages(want)
		}
		if len(have) < len(want) {
			t.Fatalf("sent %d packets, recorded %d", len(have), len(want))
		}
		for i := range want {
			if d := difference(&have[i], &want[i]); d != "" {
				t.Fatalf("packet %d: %s\n sent     %v psn %#x %d bytes\n recorded %v psn %#x %d bytes", i, d,
					have[i].Opcode, have[i].PSN, len(have[i].Payload), want[i].Opcode, want[i].PSN, len(want[i].Payload))
			}
		}
	}
}

// wholeMessages removes an incomplete message at the end.
func wholeMessages(pkts []wire.Packet) []wire.Packet {
	for n := len(pkts); n > 0; n-- {
		if pkts[n-1].Opcode.Flags()&wire.FlagEnd != 0 {
			return pkts[:n]
		}
	}
	return nil
}

// difference returns the name of the first field that differs. AckReq, solicited events, and the MSN of a response in
// progress may differ.
func difference(a, b *wire.Packet) string {
	switch {
	case a.Opcode != b.Opcode:
		return "opcode"
	case a.PSN != b.PSN:
		return "PSN"
	case a.DestQPN != b.DestQPN:
		return "queue pair"
	case a.RETH != b.RETH:
		return fmt.Sprintf("RETH %+v %+v", a.RETH, b.RETH)
	case a.AtomicETH != b.AtomicETH || a.AtomicAck != b.AtomicAck:
		return "atomic"
	case a.Imm != b.Imm || a.InvKey != b.InvKey:
		return "immediate data or key"
	case a.PKey != b.PKey:
		return "P_Key"
	case !bytes.Equal(a.Payload, b.Payload):
		return "payload"
	}
	return ""
}
