package rc

import (
	"testing"
	"time"

	"github.com/nvmeof-go/nvmeof/rdmatransport"
	"github.com/nvmeof-go/nvmeof/rdmatransport/softroce/internal/wire"
)

// TestNoAckOfRead: no acknowledgement to a foreign peer has the PSN of a READ, whose responses may be lost: Linux's
// rdma_rxe would complete the READ on it, without its data.
func TestNoAckOfRead(t *testing.T) {
	for name, ask := range map[string]func(p *pair){
		"the last acknowledgement is repeated": func(p *pair) { p.run(time.Second) },
		"a SEND comes once more": func(p *pair) {
			first := p.a.sent[0].pkt
			p.b.Receive(p.now, &first)
			p.flush(p.b)
		},
		"it has moved, and a SEND comes once more": func(p *pair) {
			first := p.a.sent[0].pkt
			p.run(20 * time.Millisecond)
			p.b.poll()
			p.move(p.b)
			p.b.Receive(p.now, &first)
			p.flush(p.b)
		},
	} {
		p := newPair(t, pairConfig{})
		p.sends(1, 100)
		p.run(5 * time.Millisecond)
		p.drop = func(_ *side, k *wire.Packet) bool { return k.Opcode == wire.RCReadResponseOnly }
		from := p.b.keys.register(pattern(100, 1), rdmatransport.AccessRemoteRead)
		to := p.a.keys.register(make([]byte, 100), rdmatransport.AccessLocalWrite)
		p.post(rdmatransport.SendWR{Op: rdmatransport.OpRead, Flags: rdmatransport.FlagSignaled, RemoteAddr: from.iova, RKey: rdmatransport.RKey(from.key),
			SGL: []rdmatransport.SGE{{Buf: to.mem, LKey: rdmatransport.LKey(to.key)}}})
		p.run(time.Millisecond)
		send, read := p.a.sent[0].pkt.PSN, p.a.sent[len(p.a.sent)-1].pkt.PSN
		sent := len(p.b.sent)
		ask(p)
		acks := 0
		for _, s := range p.b.sent[sent:] {
			if s.pkt.Opcode != wire.RCAck {
				continue
			}
			if acks++; s.pkt.PSN != send || s.pkt.PSN == read {
				t.Errorf("%s: acknowledgement of PSN %d at %v, the SEND has %d and the READ %d", name, s.pkt.PSN, s.at, send, read)
			}
		}
		if repeated := name == "the last acknowledgement is repeated"; (acks > 0) == repeated {
			t.Errorf("%s: %d acknowledgements", name, acks)
		}
	}
}
