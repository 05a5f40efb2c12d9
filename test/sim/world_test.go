package sim

import (
	crand "crypto/rand"
	"fmt"
	"hash/fnv"
	"math/rand/v2"
	"net/netip"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/uuid"

	"github.com/nvmeof-go/nvmeof/capsule"
	"github.com/nvmeof-go/nvmeof/nvmeof"
	"github.com/nvmeof-go/nvmeof/nvmeof/auth"
	"github.com/nvmeof-go/nvmeof/nvmeof/multipath"
	"github.com/nvmeof-go/nvmeof/rdmatransport/softroce"
)

const (
	subNQN = "nqn.2014-08.org.example:sim"
	nsid   = 1

	workers   = 2 // of each host
	groupSize = 4 // blocks of a worker
	groups    = 8
)

var nsUUID = uuid.MustParse("6f1f2a3c-0d3e-4c7b-9d57-1a0f6f0e5b02")

// A world is one simulation: targets, hosts, a network and a disk.
type world struct {
	t       *testing.T
	seed    uint64
	rng     *rand.Rand // chooses the failures
	start   time.Time
	network *softroce.Network
	weather softroce.Faults // faults of every direction of the network
	disk    *disk
	vault   *vault
	servers []*server
	clients []*client
	boots   int // number of restarts of the targets' machines; used by fate's goroutine only
	blocks  int
	wait    sync.WaitGroup // for goroutines that fate started

	fencing bool     // hosts use reservations
	key     auth.Key // of all hosts; zero: they need none
	ctrlKey auth.Key // of the target; zero: it is not authenticated
	kato    time.Duration
	policy  multipath.Policy
	depth   int
	capsule int // in-capsule data size in bytes

	count atomic.Int64 // counts all events

	mu         sync.Mutex // guards what follows
	cut        map[[2]netip.Addr]bool
	history    []*operation
	events     []event
	violations []string
	fenced     [maxClients]bool
	registers  [maxClients]registrations
	unchecked  int           // blocks whose history porcupine could not check in time
	lasted     time.Duration // of fake time
}

const maxClients = 3

// stream returns a random generator for an actor, so that its choices do not depend on those of other actors.
func (w *world) stream(actor string) *rand.Rand {
	h := fnv.New64a()
	h.Write([]byte(actor))
	return rand.New(rand.NewPCG(w.seed, h.Sum64()))
}

// newWorld chooses the world of a seed.
func newWorld(t *testing.T, seed uint64) *world {
	w := &world{t: t, seed: seed, start: time.Now(), cut: map[[2]netip.Addr]bool{}, blocks: groups * groupSize}
	w.rng = w.stream("fate")
	rng := w.stream("world")
	w.network = softroce.NewNetwork(seed)
	w.network.Faults = w.faults
	w.network.Merge = rng.IntN(2) == 0
	w.network.NoGSO = rng.IntN(4) == 0
	w.weather = softroce.Faults{Delay: 50 * time.Microsecond, Jitter: time.Microsecond}
	if rng.IntN(2) == 0 {
		w.weather.Loss = pick(rng, 0, 0.001, 0.01, 0.03)
		w.weather.Duplicate = pick(rng, 0, 0, 0.01, 0.05)
		w.weather.Reorder = pick(rng, 0, 0, 0.01, 0.1)
		w.weather.Corrupt = pick(rng, 0, 0, 0.001, 0.01)
		w.weather.Mark = pick(rng, 0, 0, 0.01)
		w.weather.Jitter = pick(rng, time.Microsecond, 100*time.Microsecond, 2*time.Millisecond)
	}
	w.disk = newDisk(w, pick(rng, 512, 512, 4096), w.blocks, rng.IntN(4) > 0)
	w.vault = &vault{rng: w.stream("vault")}
	w.kato = pick(rng, time.Second, 2*time.Second, 5*time.Second)
	w.policy = multipath.Policy(rng.IntN(4))
	w.depth = pick(rng, 4, 32)
	w.capsule = pick(rng, -1, 4096)
	ports, hosts := 1+rng.IntN(3), 1+rng.IntN(maxClients)
	split := ports > 1 && rng.IntN(2) == 0 // each port is a target of its own
	w.fencing = !split && hosts > 1 && rng.IntN(3) > 0
	if rng.IntN(4) == 0 {
		w.key = newKey(t)
		if rng.IntN(2) == 0 {
			w.ctrlKey = newKey(t)
		}
	}
	shape := fmt.Sprintf("one target with %d ports", ports)
	if split {
		shape = fmt.Sprintf("%d targets with one disk", ports)
	}
	w.note("world", "%s, %d hosts; keep alive %v, %v, blocks of %d, volatile %v, reservations %v, keys %v, %+v",
		shape, hosts, w.kato, w.policy, w.disk.blockSize, w.disk.volatile, w.fencing, !w.key.IsZero(), w.weather)
	for i := range ports {
		if i == 0 || split {
			w.servers = append(w.servers, &server{w: w, id: len(w.servers)})
		}
		s := w.servers[len(w.servers)-1]
		s.ports = append(s.ports, &port{addr: netip.AddrPortFrom(netip.AddrFrom4([4]byte{192, 0, 2, byte(101 + i)}), 4420)})
	}
	for i := range hosts {
		w.clients = append(w.clients, newClient(w, i, rng))
	}
	return w
}

func newKey(t *testing.T) auth.Key {
	t.Helper()
	k, err := auth.GenerateKey(auth.HashSHA256, crand.Reader) // determined by the seed
	if err != nil {
		t.Fatal(err)
	}
	return k
}

func pick[T any](rng *rand.Rand, from ...T) T { return from[rng.IntN(len(from))] }

func (w *world) faults(from, to netip.Addr) softroce.Faults {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.cut[[2]netip.Addr{from, to}] {
		return softroce.Faults{Loss: 1}
	}
	return w.weather
}

// sever cuts or restores one direction.
func (w *world) sever(from, to netip.Addr, cut bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.cut[[2]netip.Addr{from, to}] = cut; !cut {
		delete(w.cut, [2]netip.Addr{from, to})
	}
}

// isolate cuts an address off from all others, or restores it.
func (w *world) isolate(addr netip.Addr, cut bool) {
	for _, o := range w.addresses() {
		w.sever(addr, o, cut)
		w.sever(o, addr, cut)
	}
}

func (w *world) addresses() (all []netip.Addr) {
	for _, s := range w.servers {
		for _, p := range s.ports {
			all = append(all, p.addr.Addr())
		}
	}
	for _, c := range w.clients {
		all = append(all, c.addr)
	}
	return all
}

func (w *world) allPorts() (all []*port) {
	for _, s := range w.servers {
		all = append(all, s.ports...)
	}
	return all
}

func (w *world) clock() time.Duration { return time.Since(w.start) }

// note adds a line to the story.
func (w *world) note(actor, format string, args ...any) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.events = append(w.events, event{w.count.Add(1), w.clock(), actor, fmt.Sprintf(format, args...)})
}

// violation reports a failed check.
func (w *world) violation(format string, args ...any) {
	w.note("VIOLATION", format, args...)
	w.mu.Lock()
	defer w.mu.Unlock()
	w.violations = append(w.violations, fmt.Sprintf(format, args...))
}

func (w *world) must(err error) {
	if err != nil {
		w.violation("%v", err)
	}
}

// begin adds an operation to the history.
func (w *world) begin(o operation) *operation {
	w.mu.Lock()
	defer w.mu.Unlock()
	if o.kind != crash {
		o.life = w.clients[o.host].lives.Load()
	}
	o.call, o.at, o.end = w.count.Add(1), w.clock(), never
	w.history = append(w.history, &o)
	return &o
}

func (w *world) end(o *operation, err error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	o.end, o.until, o.err, o.done = w.count.Add(1), w.clock(), err, true
}

// powerFails lets the disk lose what is not durable. With reboot all targets are down, and the next start is in another
// boot.
func (w *world) powerFails(reboot bool) {
	o := w.begin(operation{kind: crash, reboot: reboot})
	if reboot {
		w.boots++
	}
	o.volatile = w.disk.powerFails()
	w.end(o, nil)
}

// registrations counts the attempts of a host to register.
type registrations struct {
	begun   int
	settled int // attempts that are known to be over and have no later effect
}

// registering records that a host begins to register: it may write from now on.
func (w *world) registering(host int) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.registers[host].begun++
	w.fenced[host] = false
}

// hasRegistered records that the host is registered, which also means that earlier attempts are over.
func (w *world) hasRegistered(host int) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.registers[host].settled = w.registers[host].begun
}

// registrationsOf returns the counts until now.
func (w *world) registrationsOf(host int) registrations {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.registers[host]
}

func (w *world) isFenced(host int) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return host >= 0 && w.fenced[host]
}

func (w *world) setFenced(host int, fenced bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.fenced[host] = fenced
}

// shared reports whether several workers write a block.
func (w *world) shared(block int) bool { return block/groupSize >= maxClients*workers }

func identity(host int) nvmeof.HostIdentity {
	return nvmeof.HostIdentity{
		NQN: nvmeof.NQN(fmt.Sprintf("nqn.2014-08.org.example:host%d", host)),
		ID:  capsule.HostID{15: byte(host + 1)},
	}
}
