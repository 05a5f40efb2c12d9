package gateway

import (
	"math/rand/v2"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"github.com/nvmeof-go/nvmeof/backend"
	"github.com/nvmeof-go/nvmeof/backend/memory"
	"github.com/nvmeof-go/nvmeof/capsule"
	"github.com/nvmeof-go/nvmeof/internal/group/state/simulated"
	"github.com/nvmeof-go/nvmeof/nvmeof/config"
	"github.com/nvmeof-go/nvmeof/nvmeof/control"
	"github.com/nvmeof-go/nvmeof/nvmeof/host"
)

// A dam is a store whose commands do not end while it is closed.
type dam struct {
	backend.Store
	mu     sync.Mutex // guards what follows
	shut   bool
	waits  bool     // something has been held
	notify []func() // of the queues
}

// set shuts or opens it.
func (d *dam) set(shut bool) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.shut = shut
	for _, notify := range d.notify {
		notify()
	}
}

func (d *dam) held() bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.waits
}

func (d *dam) holds() bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.waits = d.waits || d.shut
	return d.shut
}

func (d *dam) NewQueue(depth int, notify func()) (backend.Queue, error) {
	q, err := d.Store.NewQueue(depth, notify)
	d.mu.Lock()
	defer d.mu.Unlock()
	d.notify = append(d.notify, notify)
	return dammed{q, d}, err
}

type dammed struct {
	backend.Queue
	dam *dam
}

func (q dammed) Poll(rs []backend.Result) int {
	if q.dam.holds() {
		return 0
	}
	return q.Queue.Poll(rs)
}

// behindDam returns a gateway that serves a document whose first store has a write that does not end.
func behindDam(t *testing.T, doc *config.Document, last byte, releaseTime time.Duration) (*node, *dam) {
	t.Helper()
	store, d := simulated.Share(simulated.New(rand.New(rand.NewPCG(1, 1)))), &dam{}
	n := listen(t, store.Open(time.Second), "gw1", last, func(c *control.Config) {
		open := c.Open
		c.Open = func(x *config.Namespace, pool *memory.Pool) (backend.Store, []string, error) {
			s, notes, err := open(x, pool)
			if x.NSID != 1 {
				return s, notes, err
			}
			d.Store = s
			return d, notes, err
		}
	})
	n.releaseTime = releaseTime
	n.begin()
	if _, err := n.m.Apply(doc, control.Options{}); err != nil {
		t.Fatal(err)
	}
	n.until(t, "it is served", func(s *control.GroupStatus) bool {
		return len(n.ids()) == len(doc.Subsystems[0].Namespaces) && len(s.Groups) == 1 && s.Groups[0].Served
	})
	c, err := testHost(t, last+1).Connect(t.Context(), host.Options{Traddr: address(last), NQN: "a", HostNQN: "h", HostID: capsule.HostID{1}})
	if err != nil {
		t.Fatal(err)
	}
	x, err := c.Namespace(t.Context(), 1)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { d.set(false) })
	d.set(true)
	go x.WriteAt(make([]byte, x.BlockSize()), 0) // ends with the test, or before
	n.until(t, "the store has it", func(*control.GroupStatus) bool { return d.held() })
	return n, d
}

// untilFree waits until others can open what a namespace exports.
func (n *node) untilFree(t *testing.T, x *config.Namespace) {
	t.Helper()
	n.until(t, "others can open the file", func(*control.GroupStatus) bool {
		s, _, err := control.OpenStore(x, nil)
		if err == nil {
			_ = s.Close()
		}
		return err == nil
	})
}

// TestLetsGo: the store of a group that was lost while it did not answer is closed when it answers, so that others
// can open it.
func TestLetsGo(t *testing.T) {
	t.Parallel()
	doc := inFile(t, filepath.Join(t.TempDir(), "disk"), "")
	n, d := behindDam(t, doc, 231, 50*time.Millisecond)
	(*served)(n.Gateway).Stop(7, 1)
	time.Sleep(5 * n.releaseTime)
	d.set(false)
	n.untilFree(t, doc.Subsystems[0].Namespaces[0])
}

// TestLetsGoBeside: other gateways can open the stores of a group that was lost, except one that does not answer.
func TestLetsGoBeside(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	doc := inFile(t, filepath.Join(dir, "disk"), "}\n      - {nsid: 2, ana-group: 7, fence: lease, file: {path: "+filepath.Join(dir, "other")+", size: 1MiB}")
	n, d := behindDam(t, doc, 233, time.Minute)
	began := time.Now()
	(*served)(n.Gateway).Stop(7, 1)
	n.untilFree(t, doc.Subsystems[0].Namespaces[1])
	if took := time.Since(began); took > 10*time.Second {
		t.Errorf("a file is free after %v", took)
	}
	if s, _, err := control.OpenStore(doc.Subsystems[0].Namespaces[0], nil); err == nil {
		_ = s.Close()
		t.Error("what has a command is closed")
	}
	d.set(false)
	n.untilFree(t, doc.Subsystems[0].Namespaces[0])
}

// TestDrainsBeside: other gateways can open the stores of a group that is drained, except one that does not answer.
func TestDrainsBeside(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	doc := inFile(t, filepath.Join(dir, "disk"), "}\n      - {nsid: 2, ana-group: 7, fence: lease, file: {path: "+filepath.Join(dir, "other")+", size: 1MiB}")
	n, d := behindDam(t, doc, 235, time.Minute)
	drained := make(chan error)
	go func() { drained <- (*served)(n.Gateway).Drain(t.Context(), 7, 1) }()
	n.untilFree(t, doc.Subsystems[0].Namespaces[1])
	if s, _, err := control.OpenStore(doc.Subsystems[0].Namespaces[0], nil); err == nil {
		_ = s.Close()
		t.Error("what has a command is closed")
	}
	d.set(false)
	if err := <-drained; err != nil {
		t.Error(err)
	}
	n.untilFree(t, doc.Subsystems[0].Namespaces[0])
}

// ThreadBound implements [backend.ThreadBound].
func (q dammed) ThreadBound() bool {
	b, ok := q.Queue.(backend.ThreadBound)
	return ok && b.ThreadBound()
}
