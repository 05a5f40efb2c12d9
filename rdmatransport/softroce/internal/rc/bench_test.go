package rc

import (
	"testing"
	"time"

	"github.com/nvmeof-go/nvmeof/rdmatransport"
	"github.com/nvmeof-go/nvmeof/rdmatransport/softroce/internal/wire"
)

// BenchmarkWriteSend measures the transport's part of one 4 KiB NVMe read, on both ends: an RDMA WRITE and a SEND,
// one acknowledgement, and one 4 KiB copy.
func BenchmarkWriteSend(b *testing.B) {
	p := newPair(b, pairConfig{mtu: 4096, own: true})
	out := p.a.keys.register(pattern(4096, 1), 0)
	in := p.b.keys.register(make([]byte, 4096), rdmatransport.AccessLocalWrite|rdmatransport.AccessRemoteWrite)
	write := []rdmatransport.SendWR{
		{Op: rdmatransport.OpWrite, RemoteAddr: in.iova, RKey: rdmatransport.RKey(in.key), SGL: []rdmatransport.SGE{{Buf: out.mem, LKey: rdmatransport.LKey(out.key)}}},
		{Op: rdmatransport.OpSend, Flags: rdmatransport.FlagSignaled, SGL: []rdmatransport.SGE{{Buf: out.mem[:16], LKey: rdmatransport.LKey(out.key)}}}}
	recv := []rdmatransport.RecvWR{{SGL: []rdmatransport.SGE{{Buf: in.mem, LKey: rdmatransport.LKey(in.key)}}}}
	var cs [4]rdmatransport.Completion
	var pkt wire.Packet
	buf := make([]byte, 0, 8192)
	carry := func(from, to *side) {
		from.Transmit(p.now, from.out)
		for i := range from.out.Pkts {
			o := &from.out.Pkts[i]
			h := append(buf[:0], o.Header[:o.HLen]...)
			h = append(h, 0, 0, 0, 0)
			h[1] &^= 0x30 // the pad bits: the buffer does not contain the payload
			payload := o.Pieces[:o.NPieces]
			wire.Parse(h, &pkt)
			pkt.Payload = nil
			if len(payload) > 0 {
				pkt.Payload = payload[0]
			}
			to.Receive(p.now, &pkt)
		}
		from.out.Reset()
	}
	b.SetBytes(4096)
	for b.Loop() {
		p.now += time.Microsecond
		p.b.PostRecv(recv)
		p.a.PostSend(write)
		carry(p.a, p.b)
		carry(p.b, p.a)
		if p.a.cq.Poll(cs[:]) != 1 || p.b.cq.Poll(cs[:]) != 1 {
			b.Fatal("not completed")
		}
	}
}
