package cm

import (
	"fmt"
	"math/rand/v2"
	"net/netip"
	"testing"
	"time"

	"github.com/nvmeof-go/nvmeof/rdmatransport"
	"github.com/nvmeof-go/nvmeof/rdmatransport/softroce/internal/wire"
)

const (
	testPort   = 4420
	activeQPN  = rdmatransport.QPN(0x101)
	passiveQPN = rdmatransport.QPN(0x202)
)

var (
	addrA = netip.MustParseAddr("10.0.0.1")
	addrB = netip.MustParseAddr("10.0.0.2")
)

// An end is one engine of a pair, with its events.
type end struct {
	*Engine
	addr   netip.Addr
	events []Event
}

// A pair is two engines on a network under virtual time. filter returns how often a message arrives; nil means once.
type pair struct {
	t      *testing.T
	now    time.Duration
	a, b   *end // a connects, b listens
	filter func(from *end, what wire.AttributeID) (copies int)
	// jitter is the maximum delay of each copy in addition to 1 ms.
	jitter time.Duration
	rng    *rand.Rand

	flying []flight
	// answer handles requests at b, reply handles replies at a.
	answer func(Event)
	reply  func(Event)
}

type flight struct {
	at      time.Duration
	from    *end
	to      *end
	what    wire.AttributeID
	payload []byte
	packet  wire.Packet
}

func newEngine(addr netip.Addr, seed uint64, change func(*Config)) *Engine {
	rng := rand.New(rand.NewPCG(seed, 1))
	cfg := Config{Addr: addr, GUID: wire.GUID(seed), Rand: rng.Uint32}
	if change != nil {
		change(&cfg)
	}
	e := New(cfg)
	e.Listen(wire.TCPService(testPort))
	return e
}

func newPair(t *testing.T, seed uint64) *pair {
	p := &pair{t: t, rng: rand.New(rand.NewPCG(seed, 2))}
	p.a = &end{Engine: newEngine(addrA, seed, nil), addr: addrA}
	p.b = &end{Engine: newEngine(addrB, seed+1, nil), addr: addrB}
	p.answer = func(ev Event) { p.accept(ev.ID) }
	p.reply = func(ev Event) {
		if err := p.a.Confirm(p.now, ev.ID); err != nil {
			t.Errorf("Confirm: %v", err)
		}
	}
	return p
}

func connectParams() ConnectParams {
	return ConnectParams{
		To: netip.AddrPortFrom(addrB, testPort), SourcePort: 50000, QPN: activeQPN, StartingPSN: 0x111111,
		ResponderResources: 16, InitiatorDepth: 4, RetryCount: 7, RNRRetryCount: 6, PathMTU: wire.MTUFor(1024),
		TrafficClass: 0x68, PrivateData: []byte("hello"),
	}
}

func acceptParams() AcceptParams {
	return AcceptParams{QPN: passiveQPN, StartingPSN: 0x222222, ResponderResources: 8, InitiatorDepth: 8,
		RNRRetryCount: 7, AckDelay: 15, PrivateData: []byte("welcome")}
}

func (p *pair) connect() wire.CommID {
	p.t.Helper()
	id, err := p.a.Connect(p.now, connectParams())
	if err != nil {
		p.t.Fatal(err)
	}
	return id
}

func (p *pair) accept(id wire.CommID) {
	p.t.Helper()
	if err := p.b.Accept(p.now, id, acceptParams()); err != nil {
		p.t.Errorf("Accept: %v", err)
	}
}

// settle handles events and puts what the engines send on the network.
func (p *pair) settle() {
	for _, from := range []*end{p.a, p.b} {
		for {
			ev, ok := from.NextEvent()
			if !ok {
				break
			}
			from.events = append(from.events, ev)
			if ev.Kind == EventRequest && p.answer != nil {
				p.answer(ev)
			}
			if ev.Kind == EventReply && p.reply != nil {
				p.reply(ev)
			}
		}
		for {
			s, ok := from.NextSend()
			if !ok {
				break
			}
			p.launch(from, &s)
		}
	}
}

func (p *pair) launch(from *end, s *Send) {
	to := p.b
	if s.To == addrA {
		to = p.a
	}
	_, h, fault := wire.ParseMAD(s.Packet.Payload)
	if fault != wire.OK {
		p.t.Fatalf("an engine sent a bad MAD: %v", fault)
	}
	copies := 1
	if p.filter != nil {
		copies = p.filter(from, h.Attribute)
	}
	for range copies {
		f := flight{at: p.now + time.Millisecond, from: from, to: to, what: h.Attribute, packet: s.Packet}
		f.payload = append([]byte(nil), s.Packet.Payload...)
		f.packet.Payload = f.payload
		if p.jitter > 0 {
			f.at += time.Duration(p.rng.Int64N(int64(p.jitter)))
		}
		p.flying = append(p.flying, f)
	}
}

// step advances the time to the next event, but not beyond limit.
func (p *pair) step(limit time.Duration) bool {
	p.settle()
	next, first := min(p.a.Deadline(), p.b.Deadline()), -1
	for i := range p.flying {
		if p.flying[i].at < next {
			next, first = p.flying[i].at, i
		}
	}
	if next > limit {
		p.now = limit
		return false
	}
	p.now = max(p.now, next)
	if first >= 0 {
		f := p.flying[first]
		p.flying = append(p.flying[:first], p.flying[first+1:]...)
		f.to.Receive(p.now, netip.AddrPortFrom(f.from.addr, 55410), &f.packet)
		p.settle()
		return true
	}
	p.a.Timeout(p.now)
	p.b.Timeout(p.now)
	p.settle()
	return true
}

// run advances the time by d.
func (p *pair) run(d time.Duration) {
	for limit := p.now + d; p.step(limit); {
	}
}

// drop returns a filter that loses the first n messages of a kind.
func drop(what wire.AttributeID, n int) func(*end, wire.AttributeID) int {
	return func(_ *end, got wire.AttributeID) int {
		if got == what && n > 0 {
			n--
			return 0
		}
		return 1
	}
}

func (x *end) kinds() string {
	s := ""
	for _, ev := range x.events {
		s += fmt.Sprintf("%v ", ev.Kind)
	}
	return s
}

func (p *pair) wantEvents(x *end, want ...EventKind) {
	p.t.Helper()
	s := ""
	for _, k := range want {
		s += fmt.Sprintf("%v ", k)
	}
	if got := x.kinds(); got != s {
		p.t.Errorf("at %v the events of %v are [%s], want [%s]", p.now, x.addr, got, s)
	}
}

// wantEmpty checks that nothing is left in either engine.
func (p *pair) wantEmpty() {
	p.t.Helper()
	for _, x := range []*end{p.a, p.b} {
		wantNothingLeft(p.t, x.Engine)
	}
}

func wantNothingLeft(t *testing.T, e *Engine) {
	t.Helper()
	if e.Connections()+len(e.remoteIDs)+len(e.remoteQPNs)+len(e.halfOpenPerPeer)+len(e.timers)+e.halfOpen.Len() != 0 {
		t.Errorf("left: %d connections, %d remote IDs, %d remote QPNs, %d peers, %d timers, %d half open",
			e.Connections(), len(e.remoteIDs), len(e.remoteQPNs), len(e.halfOpenPerPeer), len(e.timers), e.halfOpen.Len())
	}
	if e.Deadline() != Never {
		t.Errorf("deadline %v", e.Deadline())
	}
}
