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

// A server is a simulated target process. When it is killed, only the disk and the vault remain. Only the goroutine of
// fate starts and ends it.
type server struct {
	w      *world
	id     int
	ports  []*port
	target *target.Target // nil: it is down
	sub    *target.Subsystem
	disk   *opened
	vault  *openVault
	state  vault // for counters
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

// admit allows every host, or only those that have the key.
func (s *server) admit() error {
	if s.w.key.IsZero() {
		s.sub.AllowAnyHost(true)
		return nil
	}
	// A Diffie-Hellman group costs two more messages, and took half of the processor time of all worlds.
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

// kill ends the target as SIGKILL does: without a message to the hosts, and each operation in progress is executed or
// not.
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

// disconnect disconnects all controllers.
func (s *server) disconnect() {
	s.w.note(s.name(), "disconnects everybody")
	for _, c := range s.target.Controllers() {
		_ = s.sub.Disconnect(c.ID) // it may have ended meanwhile
	}
}

func (s *server) setANA(p *port, state capsule.ANAState) {
	s.w.note(s.name(), "port %v is %v", p.addr, state)
	s.w.must(p.listener.SetANAState(1, state))
}

// A vault stores a target's reservations or counters.
type vault struct {
	mu   sync.Mutex // guards what follows
	rng  *rand.Rand // nil: it never fails
	kept []byte
}

// An openVault is the vault as opened by one process. It implements [target.ReservationStore].
type openVault struct {
	*vault
	dead bool // under the vault's mutex
}

func (v *openVault) Load() ([]byte, error) {
	v.mu.Lock()
	defer v.mu.Unlock()
	return v.kept, nil
}

// Save takes no time, because the target holds a mutex meanwhile, and fake time would not advance.
func (v *openVault) Save(b []byte) error {
	v.mu.Lock()
	defer v.mu.Unlock()
	if v.dead && v.rng == nil {
		return nil // the process that would see an error is dead
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
