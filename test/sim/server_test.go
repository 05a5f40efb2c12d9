package sim

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"net/netip"
	"sync"

	"go.uber.org/zap"

	"github.com/nvmeof-go/nvmeof/capsule"
	"github.com/nvmeof-go/nvmeof/nvmeof"
	"github.com/nvmeof-go/nvmeof/nvmeof/auth"
	"github.com/nvmeof-go/nvmeof/nvmeof/target"
	"github.com/nvmeof-go/nvmeof/rdmatransport"
	"github.com/nvmeof-go/nvmeof/rdmatransport/softroce"
)

// A server is a target as a process: killed, it leaves nothing but the disk and the vault.
// Fate alone starts and ends it.
type server struct {
	w      *world
	id     int
	ports  []*port
	target *target.Target // nil: it is down
	sub    *target.Subsystem
	disk   *opened
	vault  *openVault
	state  vault // of counters
	opened *openVault
}

type port struct {
	addr     netip.AddrPort
	device   rdmatransport.Device
	listener *target.Listener
}

func (s *server) name() string { return "target" + string(rune('1'+s.id)) }

func (s *server) start() error {
	w := s.w
	s.disk, s.vault, s.opened = w.disk.open(s.name()), &openVault{vault: w.vault}, &openVault{vault: &s.state}
	var err error
	if s.target, err = target.New(target.Config{
		Log: zap.NewNop(), Polling: nvmeof.PollNever, Arena: 4 << 20, QueueDepth: w.depth, InCapsule: w.capsule, BackendDepth: 16,
		Boot: fmt.Sprintf("boot %d", w.boots),
	}); err != nil {
		return err
	}
	if s.sub, err = s.target.AddSubsystem(target.SubsystemConfig{NQN: subNQN, State: s.opened}); err != nil {
		return err
	}
	if err = s.admit(); err != nil {
		return err
	}
	nc := target.NamespaceConfig{Store: s.disk, NSID: nsid, UUID: nsUUID}
	if w.fencing {
		nc.Reservations = s.vault
	}
	if _, err = s.sub.AddNamespace(nc); err != nil {
		return err
	}
	for _, p := range s.ports {
		w.isolate(p.addr.Addr(), false)
		if p.device, err = softroce.Open(softroce.Config{Addr: p.addr.Addr(), Network: w.network}); err != nil {
			return err
		}
		device, err := s.target.AddDevice(p.device)
		if err != nil {
			return err
		}
		if p.listener, err = device.Listen(target.ListenerConfig{Addr: p.addr}); err != nil {
			return err
		}
	}
	w.note(s.name(), "starts")
	return nil
}

// admit lets in every host, or those that have the key.
func (s *server) admit() error {
	if s.w.key.IsZero() {
		s.sub.AllowAnyHost(true)
		return nil
	}
	// An exponentiation is two messages more, and took half of all worlds' processor time.
	groups := []auth.Group{auth.GroupNull}
	if s.w.seed%16 == 0 {
		groups = []auth.Group{auth.GroupFFDHE2048}
	}
	for _, c := range s.w.clients {
		err := s.sub.SetHost(target.HostConfig{
			NQN: identity(c.id).NQN, DHCHAPKey: s.w.key, DHCHAPCtrlKey: s.w.ctrlKey, DHCHAPGroups: groups,
		})
		if err != nil {
			return err
		}
	}
	return nil
}

// kill ends it as kill -9 does: nobody hears of it, and what it has begun is done or not.
func (s *server) kill() {
	for _, p := range s.ports {
		s.w.isolate(p.addr.Addr(), true)
	}
	s.vault.kill()
	s.opened.kill()
	s.disk.kill()
	s.w.note(s.name(), "is killed")
	s.close()
}

func (s *server) close() {
	s.w.must(s.target.Close())
	for _, p := range s.ports {
		s.w.must(p.device.Close())
	}
	s.target = nil
}

// disconnect ends all controllers.
func (s *server) disconnect() {
	s.w.note(s.name(), "disconnects everybody")
	for _, c := range s.target.Controllers() {
		_ = s.sub.Disconnect(c.ID) // it may have ended by itself
	}
}

func (s *server) setANA(p *port, state capsule.ANAState) {
	s.w.note(s.name(), "port %v is %v", p.addr, state)
	s.w.must(p.listener.SetANAState(1, state))
}

// A vault is where a target keeps reservations, or counters.
type vault struct {
	mu   sync.Mutex // guards what follows
	rng  *rand.Rand // nil: it never fails
	kept []byte
}

// An openVault is the vault as one process has it open. It implements
// [target.ReservationStore].
type openVault struct {
	*vault
	dead bool // under the vault's mutex
}

func (v *openVault) Load() ([]byte, error) {
	v.mu.Lock()
	defer v.mu.Unlock()
	return v.kept, nil
}

// Save takes no time: the target holds a mutex meanwhile, on which fake time does not pass.
func (v *openVault) Save(b []byte) error {
	v.mu.Lock()
	defer v.mu.Unlock()
	if v.dead && v.rng == nil {
		return nil // there is no process that could hear of it
	}
	if v.dead || v.rng != nil && v.rng.IntN(32) == 0 {
		return errors.New("no space left on device")
	}
	v.kept = append([]byte{}, b...)
	return nil
}

func (v *openVault) kill() {
	v.mu.Lock()
	defer v.mu.Unlock()
	v.dead = true
}
