package target

import (
	"errors"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"

	"github.com/nvmeof-go/nvmeof/nvmeof/target/internal/storage"

	"github.com/nvmeof-go/nvmeof/nvmeof"
	"github.com/nvmeof-go/nvmeof/nvmeof/internal/fabric"
	"github.com/nvmeof-go/nvmeof/nvmeof/internal/shard"
	"github.com/nvmeof-go/nvmeof/nvmeof/target/internal/meter"
	"github.com/nvmeof-go/nvmeof/rdmatransport"
)

// A Device is an RDMA device on which a target serves, with shards of its own. Hosts reach the same subsystems
// through all devices. Its methods may be called from any goroutine except a shard's.
type Device struct {
	target  *Target
	rdma    rdmatransport.Device
	attrs   rdmatransport.Attrs
	site    storage.Site   // the device in package storage
	workers []*worker      // constant after AddDevice
	queues  sync.WaitGroup // registered queues, and calls by the device; added to under Target.mu
	removed bool           // nothing may be added any more; under Target.mu
	zeroes  zeroes
}

// zeroes is memory that stays zero, as long as the data of one command may be. Data behind the end of a log page
// is sent from it and takes no buffer.
type zeroes struct {
	slab   *shard.Slab
	region rdmatransport.MemoryRegion
}

func (z *zeroes) init(d rdmatransport.Domain) (err error) {
	if z.slab, err = shard.NewSlab(shard.MaxBuffer); err == nil {
		z.region, err = d.Register(z.slab.Bytes(), rdmatransport.AccessLocalWrite)
	}
	return err
}

func (z *zeroes) close() error {
	var err error
	if z.region != nil {
		err = z.region.Deregister()
	}
	return errors.Join(err, z.slab.Close())
}

// A worker is one shard and the target's state in it.
type worker struct {
	device  *Device
	lanes   *storage.Shard       // the shard in package storage
	shard   *shard.Shard         // the same
	data    arenaMemory          // of the shard's own arena: buffers for the commands of hosts
	public  *shard.Arena         // buffers for commands that any host may send
	open    arenaMemory          // the memory of public
	scratch *shard.Arena         // buffers for data that commands read but do not send to the host
	turns   *fabric.Dispatcher   // schedules the commands of all queues
	parties map[partyName]*party // belongs to the shard
	places  []*party             // the same by index
	queues  atomic.Int64
	counts  bool // if false, turn is unused
	turn    meter.Turn
	tracing *tracing                        // nil: no trace is active; belongs to the shard
	strays  map[nvmeof.NQN]*meter.Namespace // by subsystem; belongs to the shard

	shared     *fabric.SharedReceives // of I/O queues; nil: each has its own
	sharedSize int64                  // bytes that shared takes
}

// arenaMemory is an arena's memory, registered with the device.
type arenaMemory struct {
	region rdmatransport.MemoryRegion
	key    rdmatransport.LKey
}

// register registers an arena. Hosts have no access to it, only the target's device.
func (m *arenaMemory) register(d rdmatransport.Domain, a *shard.Arena) (err error) {
	if m.region, err = d.Register(a.Bytes(), rdmatransport.AccessLocalWrite); err == nil {
		m.key = m.region.LKey()
	}
	return err
}

func (m *arenaMemory) close() error {
	if m.region == nil {
		return nil
	}
	return m.region.Deregister()
}

// keyOf returns the L_Key of the memory of a buffer for a command's data.
func (w *worker) keyOf(b shard.Buffer) rdmatransport.LKey {
	if b.Arena() == w.public {
		return w.open.key
	}
	return w.data.key
}

// AddDevice adds a device; hosts can connect through it once it has listeners. The caller closes the device, after
// Remove or after the target.
func (t *Target) AddDevice(dev rdmatransport.Device) (*Device, error) {
	if dev == nil {
		return nil, errors.New("target: AddDevice needs a device")
	}
	d := &Device{target: t, rdma: dev, attrs: dev.Attrs()}
	if err := t.cfg.checkDevice(&d.attrs); err != nil {
		return nil, err
	}
	err := d.start()
	if err == nil {
		err = t.enter(d)
	}
	if err != nil {
		return nil, errors.Join(err, d.stop())
	}
	return d, nil
}

// enter adds a device that has been started.
func (t *Target) enter(d *Device) error {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.closed {
		return rdmatransport.ErrClosed
	}
	t.devices = append(slices.Clone(t.devices), d)
	return nil
}

// start starts the device's shards, and opens a lane to every volume in each.
func (d *Device) start() (err error) {
	if d.site.Domain, err = d.rdma.NewDomain(); err != nil {
		return fmt.Errorf("target: protection domain: %w", err)
	}
	if err := d.zeroes.init(d.site.Domain); err != nil {
		return fmt.Errorf("target: zeroes: %w", err)
	}
	d.site.Pins = d.attrs.Pins
	for range d.target.cfg.Shards {
		if err := d.addWorker(); err != nil {
			return err
		}
	}
	return d.target.volumes.AddSite(&d.site)
}

func (d *Device) addWorker() error {
	t, i := d.target, len(d.workers)
	cq, err := d.rdma.NewCompletionQueue(rdmatransport.CQConfig{})
	if err != nil {
		return fmt.Errorf("target: completion queue %d: %w", i, err)
	}
	s, err := shard.New(shard.Config{
		CQ: cq, Polling: t.cfg.Polling, Spin: t.cfg.Spin, Arena: t.cfg.Arena, Dedicated: true,
	})
	if err != nil {
		return errors.Join(fmt.Errorf("target: shard %d: %w", i, err), cq.Close())
	}
	turns := fabric.NewDispatcher(s) // created first, so that it runs before stores get the commands of the turn
	p, err := t.volumes.AddShard(&d.site, s)
	if err != nil {
		return errors.Join(err, s.Close())
	}
	w := &worker{device: d, lanes: p, shard: s, turns: turns, parties: make(map[partyName]*party), strays: make(map[nvmeof.NQN]*meter.Namespace)}
	p.Stalled = w.stalled
	if w.counts = !t.cfg.Unmeasured; w.counts {
		s.OnTurn(w.turn.Next)
	}
	s.OnHeldUp(w.endExpired)
	d.workers = append(d.workers, w)
	if err := w.makeArenas(); err != nil {
		return fmt.Errorf("target: buffers of shard %d: %w", i, err)
	}
	s.Start()
	return w.shareReceives()
}

// makeArenas maps and registers the arenas from which commands get their buffers.
func (w *worker) makeArenas() (err error) {
	domain := w.device.site.Domain
	if err = w.data.register(domain, w.shard.Arena()); err != nil {
		return err
	}
	if w.public, err = shard.NewArena(publicSize); err != nil {
		return err
	}
	if err = w.open.register(domain, w.public); err != nil {
		return err
	}
	if w.scratch, err = shard.NewArena(scratchSize); err != nil {
		return err
	}
	w.shard.AddArena(w.public)
	w.shard.AddArena(w.scratch)
	return nil
}

// shareReceives posts the receives that the worker's I/O queues share, if configured.
func (w *worker) shareReceives() error {
	t := w.device.target
	if t.cfg.SharedReceives == 0 {
		return nil
	}
	cfg := fabric.SharedConfig{Shard: w.shard, Domain: w.device.site.Domain, Receives: t.cfg.SharedReceives, InCapsule: t.cfg.InCapsule}
	w.sharedSize = int64(cfg.Footprint())
	if !t.memory.set(w.sharedSize) {
		w.sharedSize = 0
		return fmt.Errorf("target: %d shared receives of each shard take more than the queue memory of %d bytes: raise QueueMemory",
			t.cfg.SharedReceives, t.cfg.QueueMemory)
	}
	var err error
	if w.shared, err = fabric.NewSharedReceives(cfg); err == nil {
		err = w.do(w.shared.Open)
	}
	if err != nil {
		return fmt.Errorf("target: shared receives of shard %d: %w", w.lanes.Index, err)
	}
	return nil
}

// do calls f in the worker's shard.
func (w *worker) do(f func() error) error {
	var err error
	called := w.shard.Call(func() { err = f() })
	return errors.Join(called, err)
}

// Remove ends the device's listeners and the connections through them, waits until none of their operations is in
// flight, and stops its shards. Other devices are not affected. A store that hangs delays it: [Device.Unfinished]
// names that store. Why is for the log.
func (d *Device) Remove(why string) error {
	t := d.target
	t.mu.Lock()
	if d.removed || t.closed {
		t.mu.Unlock()
		return fmt.Errorf("target: device %s was removed: %w", d.attrs.Name, rdmatransport.ErrClosed)
	}
	d.removed = true
	t.tasks.Add(1) // Close waits for it
	defer t.tasks.Done()
	gone := t.removeListenersLocked(func(l *Listener) bool { return l.device == d })
	t.devices = slices.DeleteFunc(slices.Clone(t.devices), func(o *Device) bool { return o == d })
	t.mu.Unlock()
	var errs []error
	for _, l := range gone {
		errs = append(errs, l.end(why))
	}
	t.dropQueues(func(q *queue) bool { return q.worker.device == d }, why)
	d.queues.Wait()
	t.volumes.Quiesce(&d.site)
	return errors.Join(append(errs, d.stop())...)
}

// Unfinished lists the names of the exports that Remove waits for, in order: those whose stores have not finished
// commands that came through the device.
func (d *Device) Unfinished() []string { return d.target.volumes.Unfinished(&d.site) }

// stop undoes start, even if that failed halfway. The device must have no queue left.
func (d *Device) stop() error {
	errs := []error{d.target.volumes.RemoveSite(&d.site)}
	for _, w := range d.workers {
		errs = append(errs, w.close())
	}
	if d.site.Domain != nil {
		errs = append(errs, d.zeroes.close())
		errs = append(errs, d.site.Domain.Close())
	}
	return errors.Join(errs...)
}

func (w *worker) close() error {
	var errs []error
	if w.shared != nil {
		errs = append(errs, w.do(w.shared.Close), w.shared.Free())
	}
	w.device.target.memory.unset(w.sharedSize)
	errs = append(errs, w.data.close(), w.open.close(), w.shard.Close())
	for _, a := range []*shard.Arena{w.public, w.scratch} {
		if a != nil {
			errs = append(errs, a.Close())
		}
	}
	return errors.Join(errs...)
}
