package multipath

import (
	"context"
	"encoding/binary"
	"net/netip"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/uuid"
	"go.uber.org/zap"
	"go.uber.org/zap/zaptest"

	"github.com/nvmeof-go/nvmeof/backend"
	"github.com/nvmeof-go/nvmeof/backend/memory"
	"github.com/nvmeof-go/nvmeof/capsule"
	"github.com/nvmeof-go/nvmeof/nvmeof"
	"github.com/nvmeof-go/nvmeof/nvmeof/host"
	"github.com/nvmeof-go/nvmeof/nvmeof/target"
	"github.com/nvmeof-go/nvmeof/rdmatransport"
	"github.com/nvmeof-go/nvmeof/rdmatransport/rdmatest"
	"github.com/nvmeof-go/nvmeof/rdmatransport/softroce"
)

const (
	testNQN  = "nqn.2014-08.org.example:disk"
	testSize = 1 << 20
)

var testUUID = uuid.MustParse("6f1f2a3c-0d3e-4c7b-9d57-1a0f6f0e5b01")

// A lab is a host and targets with one store, on an in-memory network.
type lab struct {
	t       *testing.T
	network *softroce.Network
	store   backend.Store
	host    *host.Host
	device  rdmatransport.Device
	sides   []*side

	loopback *rdmatest.Loopback // used instead of the network

	mu   sync.Mutex // guards the fields below, which the network reads
	cut  map[netip.Addr]bool
	mute map[netip.Addr]bool // targets whose packets are dropped
	deaf map[netip.Addr]bool // targets that receive no Identify of a namespace

	queues queueCutter
}

// A side is a target at its own address; it may be killed.
type side struct {
	l        *lab
	addr     netip.AddrPort
	store    backend.Store
	uuid     uuid.UUID
	device   rdmatransport.Device
	target   *target.Target
	sub      *target.Subsystem
	listener *target.Listener
	empty    bool              // started without the namespace
	state    target.StateStore // nil: none
	boot     string
}

func inBubble(t *testing.T, f func(*testing.T)) {
	t.Helper()
	synctest.Test(t, f)
}

// newLab starts targets. Everything is closed with the test.
func newLab(t *testing.T, targets int) *lab { return newLabOn(t, targets, nil) }

// newLabOn does so on a loopback network if loopback is not nil.
func newLabOn(t *testing.T, targets int, loopback *rdmatest.Loopback) *lab {
	t.Helper()
	cfg := memory.Config{Size: testSize, BlockSize: 512}
	if loopback != nil {
		cfg = memory.Config{Size: 4 << 20, BlockSize: 4096} // what package backendtest needs
	}
	store, err := memory.New(cfg)
	if err != nil {
		t.Fatal(err)
	}
	l := &lab{t: t, network: softroce.NewNetwork(1), store: store, loopback: loopback, cut: map[netip.Addr]bool{}, mute: map[netip.Addr]bool{}, deaf: map[netip.Addr]bool{}}
	l.network.Faults = func(from, to netip.Addr) softroce.Faults {
		l.mu.Lock()
		defer l.mu.Unlock()
		if l.cut[from] || l.cut[to] || l.mute[from] {
			return softroce.Faults{Loss: 1}
		}
		drop := l.queues.drop(from, to)
		if l.deaf[to] {
			drop = identifiesNamespace
		}
		return softroce.Faults{Delay: 50 * time.Microsecond, Drop: drop}
	}
	l.device = l.open("192.0.2.1")
	l.host, err = host.New(host.Config{Device: l.device, Shards: 2, Polling: nvmeof.PollNever})
	if err != nil {
		t.Fatal(err)
	}
	for i := range targets {
		s := &side{l: l, addr: netip.AddrPortFrom(netip.AddrFrom4([4]byte{192, 0, 2, byte(2 + i)}), 4420), store: store, uuid: testUUID}
		l.sides = append(l.sides, s)
		s.start()
	}
	t.Cleanup(l.close)
	return l
}

func (l *lab) open(addr string) rdmatransport.Device {
	l.t.Helper()
	at := netip.MustParseAddr(addr)
	if l.loopback != nil {
		d, err := l.loopback.Open(at, rdmatest.Attrs())
		if err != nil {
			l.t.Fatal(err)
		}
		return d
	}
	d, err := softroce.Open(softroce.Config{Addr: at, Shards: 2, Network: l.network})
	if err != nil {
		l.t.Fatal(err)
	}
	return d
}

func (l *lab) close() {
	l.must(l.host.Close())
	l.must(l.device.Close())
	for _, s := range l.sides {
		if s.target != nil {
			s.stop()
		}
	}
	l.must(l.store.Close())
}

func (l *lab) must(err error) {
	l.t.Helper()
	if err != nil {
		l.t.Error(err)
	}
}

func (s *side) start() {
	t := s.l.t
	t.Helper()
	s.device = s.l.open(s.addr.Addr().String())
	var err error
	if s.target, err = target.New(target.Config{
		Device: s.device, Log: zaptest.NewLogger(t, zaptest.Level(zap.ErrorLevel)), Polling: nvmeof.PollNever, Arena: 8 << 20, Boot: s.boot,
	}); err != nil {
		t.Fatal(err)
	}
	if s.sub, err = s.target.AddSubsystem(target.SubsystemConfig{NQN: testNQN, State: s.state, AwaitState: true}); err != nil {
		t.Fatal(err)
	}
	s.sub.AllowAnyHost(true)
	if !s.empty {
		s.export()
	}
	if s.listener, err = s.target.Listen(s.addr); err != nil {
		t.Fatal(err)
	}
}

// export adds the namespace.
func (s *side) export() {
	s.l.t.Helper()
	if _, err := s.sub.AddNamespace(target.NamespaceConfig{Store: s.store, NSID: 1, UUID: s.uuid}); err != nil {
		s.l.t.Fatal(err)
	}
}

func (s *side) stop() {
	s.l.must(s.target.Close())
	s.l.must(s.device.Close())
	s.target = nil
}

// kill ends the target as kill -9 does, without a message to the host.
func (s *side) kill() {
	s.l.sever(s, true)
	s.stop()
}

// revive restarts it.
func (s *side) revive() {
	s.l.sever(s, false)
	s.start()
}

// sever disconnects a target from the network, or connects it again.
func (l *lab) sever(s *side, cut bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.cut[s.addr.Addr()] = cut
}

// deafen drops Identify commands for namespaces sent to a target, and all later packets on that queue, or stops doing
// so.
func (l *lab) deafen(s *side, deaf bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.deaf[s.addr.Addr()] = deaf
}

// identifiesNamespace reports whether a packet contains such a command.
func identifiesNamespace(packet []byte) bool {
	const bth, sendOnly = 12, 4
	return len(packet) > bth+capsule.CommandSize && packet[0] == sendOnly &&
		packet[bth] == byte(capsule.AdminIdentify) && binary.LittleEndian.Uint32(packet[bth+4:]) != 0
}

func (l *lab) config() Config {
	c := Config{NQN: testNQN}
	for _, s := range l.sides {
		c.Paths = append(c.Paths, l.path(s))
	}
	return c
}

func (l *lab) path(s *side) PathConfig {
	kato := 2 * time.Second
	if l.loopback != nil {
		kato = time.Minute // of real time, on a machine that may be busy
	}
	return PathConfig{
		Host:    l.host,
		Options: host.Options{Traddr: s.addr.Addr(), Trsvcid: s.addr.Port(), KeepAliveTmo: kato, NrIOQueues: 2},
	}
}

func (l *lab) connect(c Config) *Subsystem {
	l.t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	s, err := Connect(ctx, c)
	if err != nil {
		l.t.Fatalf("Connect: %v", err)
	}
	l.t.Cleanup(func() { l.must(s.Close()) })
	return s
}

func (l *lab) namespace(s *Subsystem) *Namespace {
	l.t.Helper()
	n, err := s.Namespace(context.Background(), 1)
	if err != nil {
		l.t.Fatalf("Namespace: %v", err)
	}
	return n
}

// await waits for a state of a path.
func (l *lab) await(p *Path, want State) {
	l.t.Helper()
	for end := time.Now().Add(time.Hour); p.Status().State != want; time.Sleep(10 * time.Millisecond) {
		if time.Now().After(end) {
			l.t.Fatalf("path %v is %v, want %v: %v", p.Addr(), p.Status().State, want, p.Status().Err)
		}
	}
}
