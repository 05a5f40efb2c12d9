package badinput

import (
	"context"
	"flag"
	"net/netip"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/nvmeof-go/nvmeof/backend/memory"
	"github.com/nvmeof-go/nvmeof/capsule"
	nvmehost "github.com/nvmeof-go/nvmeof/nvmeof/host"
	"github.com/nvmeof-go/nvmeof/nvmeof/target"
	"github.com/nvmeof-go/nvmeof/rdmatransport"
	"github.com/nvmeof-go/nvmeof/rdmatransport/softroce"
	"github.com/nvmeof-go/nvmeof/rdmatransport/softroce/internal/wire"
)

var long = flag.Bool("long", false, "every flood and every way to deliver nothing, not a few")

// choose returns the first number, and with -long the second.
func choose(quick, whole int) int {
	if *long {
		return whole
	}
	return quick
}

// wired is a target and a well-behaved host on sockets, where the cost of a packet matters.
type wired struct {
	t         *testing.T
	at        netip.Addr // the target's
	device    *softroce.Device
	target    *target.Target
	host      *nvmehost.Host
	namespace *nvmehost.Namespace
	id        wire.CommID // of the next request
}

// wiredHost is the address of the honest host.
var wiredHost = netip.MustParseAddr("127.85.0.2")

func newWired(t *testing.T) *wired {
	t.Helper()
	w := &wired{t: t, at: netip.MustParseAddr("127.85.0.1"), id: 1}
	must := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	w.device = w.open(w.at)
	var err error
	w.target, err = target.New(target.Config{Device: w.device})
	must(err)
	t.Cleanup(func() { w.target.Close() })
	sub, err := w.target.AddSubsystem(target.SubsystemConfig{NQN: subNQN})
	must(err)
	sub.AllowHost(hostNQN)
	store, err := memory.New(memory.Config{Size: 1 << 20})
	must(err)
	t.Cleanup(func() { store.Close() })
	_, err = sub.AddNamespace(target.NamespaceConfig{Store: store})
	must(err)
	_, err = w.target.Listen(netip.AddrPortFrom(w.at, nvmePort))
	must(err)
	w.host = w.newHost(wiredHost)
	c := w.connect(w.host)
	t.Cleanup(func() { c.Disconnect(context.Background()) })
	w.namespace, err = c.Namespace(context.Background(), 1)
	must(err)
	return w
}

func (w *wired) open(addr netip.Addr) *softroce.Device {
	w.t.Helper()
	d, err := softroce.Open(softroce.Config{Addr: addr})
	if err != nil {
		w.t.Fatal(err)
	}
	w.t.Cleanup(func() { d.Close() })
	return d
}

func (w *wired) newHost(addr netip.Addr) *nvmehost.Host {
	w.t.Helper()
	h, err := nvmehost.New(nvmehost.Config{Device: w.open(addr)})
	if err != nil {
		w.t.Fatal(err)
	}
	w.t.Cleanup(func() { h.Close() })
	return h
}

func (w *wired) connect(h *nvmehost.Host) *nvmehost.Controller {
	w.t.Helper()
	c, err := h.Connect(context.Background(), nvmehost.Options{Traddr: w.at, NQN: subNQN, HostNQN: hostNQN, HostID: hostID, NrIOQueues: 1})
	if err != nil {
		w.t.Fatal(err)
	}
	return c
}

// rate returns the number of reads that the host completes in the time d.
func (w *wired) rate(d time.Duration) int {
	w.t.Helper()
	var n atomic.Int64
	var stop atomic.Bool
	var readers sync.WaitGroup
	for range 8 {
		readers.Go(func() {
			b := make([]byte, 4096)
			for !stop.Load() {
				if _, err := w.namespace.ReadAt(b, 0); err != nil {
					w.t.Error(err)
					return
				}
				n.Add(1)
			}
		})
	}
	time.Sleep(d)
	count := n.Load()
	stop.Store(true)
	readers.Wait()
	return int(count)
}

// A wiredFlood is a flood of packets at a given rate.
type wiredFlood struct {
	name    string
	sources []netip.Addr
	rate    int // packets per second
	packet  func(w *wired, r *rawPeer) []byte
	counter counter // counts dropped packets
	least   int     // minimum percentage of packets counted
	often   bool    // also run without -long
}

// start sends the flood until stop is called, which returns the number of packets sent.
func (f *wiredFlood) start(w *wired) (stop func() int) {
	var peers []*rawPeer
	for _, a := range f.sources {
		peers = append(peers, newRawPeer(w.t, a, w.at))
	}
	end, sent := make(chan struct{}), make(chan int)
	go func() { // ends with stop
		const tick = 4 * time.Millisecond
		n, last := 0, time.Now()
		for {
			select {
			case <-end:
				sent <- n
				return
			case <-time.After(tick):
			}
			// Packets that were not sent during a pause of this thread are not made up for.
			now := time.Now()
			for range int(min(now.Sub(last), 4*tick)) * f.rate / int(time.Second) {
				r := peers[n%len(peers)]
				r.conn.WriteToUDPAddrPort(f.packet(w, r), r.to) // lost if the buffer is full
				n++
			}
			last = now
		}
	}()
	return func() int {
		close(end)
		n := <-sent
		for _, r := range peers {
			r.conn.Close()
		}
		return n
	}
}

// TestFloodsBeside sends floods of packets that anyone can send, at rates that one peer easily reaches, while a host
// reads. The host keeps at least half of its rate, and a new host is connected during the flood. Packets over the
// limits of an address, and of all addresses, are dropped at little cost.
func TestFloodsBeside(t *testing.T) {
	if raceEnabled {
		t.Skip("a flood and the race detector leave connections no time: they are lost")
	}
	one := []netip.Addr{netip.MustParseAddr("127.85.0.3")}
	var many []netip.Addr
	for i := range byte(200) {
		many = append(many, netip.AddrFrom4([4]byte{127, 85, 1, 1 + i}))
	}
	tooMany := func(s *softroce.Stats) uint64 { return s.CM.TooMany }
	toQPN := func(qpn rdmatransport.QPN) func(*wired, *rawPeer) []byte {
		return func(_ *wired, r *rawPeer) []byte {
			p := wire.Packet{Opcode: wire.RCSendOnly, PKey: wire.DefaultPKey, DestQPN: qpn, Payload: make([]byte, 64)}
			return r.seal(append(wire.AppendHeaders(nil, &p), p.Payload...), ipShape{})
		}
	}
	for i, f := range []wiredFlood{
		{"REQ of a stranger", one, 8000, (*wired).request, tooMany, 50, false},
		{"REQ in the name of the host", []netip.Addr{wiredHost}, 8000, (*wired).request, tooMany, 50, false},
		{"REQ of 200 addresses", many, 8000, (*wired).request, tooMany, 10, true},
		{"REQ that is refused", one, 8000, func(_ *wired, r *rawPeer) []byte { return r.seal(request(0), ipShape{}) }, tooMany, 50, false},
		{"DREQ of no connection", one, 8000, (*wired).dreq, tooMany, 50, false},
		{"to no queue pair", one, 8000, toQPN(0x123456), unknownQPN, 90, false},
		{"no message", one, 8000, toQPN(wire.CMQPN), notUD, 90, false},
		{"wrong ICRC", one, 8000, func(_ *wired, r *rawPeer) []byte { return request(4) }, fault(wire.BadICRC), 90, true},
	} {
		t.Run(f.name, func(t *testing.T) {
			if !f.often && !*long {
				t.Skip("tried with -long")
			}
			w := newWired(t)
			f.exhaust(w) // uses up the burst, so that only the rates matter
			counted, sent := sum(w.device, f.counter), 0
			const window, least, most = 25 * time.Millisecond, 3, 80
			before, during := 0, 0
			for n := 0; n < least || n < most && 2*during < before; n++ { // other programs run as well
				before += w.rate(window)
				stop := f.start(w)
				during += w.rate(window)
				sent += stop()
			}
			counted = sum(w.device, f.counter) - counted
			t.Logf("%d reads without the flood, %d beside it: %.2f; %d packets, %d dropped as such", before, during, float64(during)/float64(before), sent, counted)
			if 2*during < before {
				t.Error("less than half is left")
			}
			if n := w.device.RefusedRequests().TooMany; f.name[:3] == "REQ" && n < counted {
				t.Errorf("the administrator is shown %d", n)
			}
			if counted*100 < uint64(sent*f.least) {
				t.Errorf("%d of %d packets were counted", counted, sent)
			}
			stop := f.start(w)
			began := time.Now()
			newcomer := w.connect(w.newHost(netip.AddrFrom4([4]byte{127, 85, 2, byte(1 + i)})))
			d := time.Since(began)
			t.Logf("a newcomer was connected in %v", d)
			if d > 2*time.Second {
				t.Error("that is too long")
			}
			stop()
			if err := newcomer.Disconnect(context.Background()); err != nil {
				t.Error(err)
			}
		})
	}
}

// exhaust floods until packets are dropped because of the limits.
func (f wiredFlood) exhaust(w *wired) {
	f.rate = 20000
	stop := f.start(w)
	for began, before := time.Now(), sum(w.device, f.counter); time.Since(began) < 3*time.Second && sum(w.device, f.counter) < before+200; {
		time.Sleep(20 * time.Millisecond)
	}
	stop()
}

// request returns a correct request.
func (w *wired) request(r *rawPeer) []byte {
	w.id++
	from := r.conn.LocalAddr().(interface{ AddrPort() netip.AddrPort }).AddrPort().Addr()
	q := &wire.REQ{
		LocalID: w.id, Service: wire.TCPService(nvmePort), GUID: 0x1111, QPN: firstQPN + rdmatransport.QPN(w.id)&0xffff,
		ResponderResources: 16, InitiatorDepth: 16, StartingPSN: 1,
		RemoteTimeout: 18, LocalTimeout: 18, MaxRetries: 3, RetryCount: 7, RNRRetryCount: 7,
		PKey: wire.DefaultPKey, PathMTU: wire.MTUFor(mtu), LocalLID: 0xffff, RemoteLID: 0xffff,
		LocalGID: wire.GIDFor(from), RemoteGID: wire.GIDFor(w.at), HopLimit: 64, AckTimeout: 14,
	}
	h := wire.NewIPHeader(netip.AddrPortFrom(from, 40000), w.at)
	h.Put(&q.PrivateData)
	nvme(q, func(d *capsule.RequestData) { d.HRQSIZE, d.HSQSIZE = 32, 31 })
	return r.message(q)
}

// dreq returns a DREQ for a connection that does not exist.
func (w *wired) dreq(r *rawPeer) []byte {
	w.id++
	return r.message(&wire.DREQ{LocalID: w.id, RemoteID: w.id})
}

func (r *rawPeer) message(q putter) []byte {
	var m wire.MAD
	q.Put(&m, transaction)
	p := datagram(&m)
	return r.seal(append(wire.AppendHeaders(nil, &p), m[:]...), ipShape{})
}
