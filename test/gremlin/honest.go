package main

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net/netip"
	"os"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/sys/unix"

	"github.com/nvmeof-go/nvmeof/capsule"
	"github.com/nvmeof-go/nvmeof/nvmeof"
	"github.com/nvmeof-go/nvmeof/nvmeof/host"
	"github.com/nvmeof-go/nvmeof/rdmatransport/softroce"
)

// A sample is an honest host's results over a period.
type sample struct {
	Rate     float64 // operations per second
	P99, Max time.Duration
	Errors   int
	Err      string // one of the errors
}

// honest is a host that works endlessly with a few commands outstanding. It needs much less than a target can give, so
// that its rate does not change as long as it gets its share.
type honest interface {
	// operate does one operation, number turn of a worker.
	operate(worker, turn int, buf []byte) error
	// workers returns the number of operations outstanding at a time.
	workers() int
	// again reconnects a host that has lost its target, for the next attack.
	again(ctx context.Context) error
	close()
}

const (
	workers   = 4
	region    = 1 << 20 // bytes that are read and written, from the start of the namespace
	readSize  = 4096
	wroteSize = 16384 // larger than in-capsule data, so that the target has to fetch it

	// The neighbour's reads outstanding and their size, the same as of the attacker of read-nothing.
	neighbourReads = 16
	neighbourSize  = 64 << 10
)

// A load is the work of an honest host and its measurements.
type load struct {
	honest honest
	stop   atomic.Bool
	wait   sync.WaitGroup

	mu     sync.Mutex
	began  time.Time // of the present window
	times  []time.Duration
	errors int
	err    error
	busy   []time.Time // by worker: the start of the operation in progress, zero if none
}

func start(h honest) *load {
	l := &load{honest: h, began: time.Now(), busy: make([]time.Time, h.workers())}
	for w := range l.busy {
		l.wait.Go(func() { l.work(w) }) // ends with stop
	}
	return l
}

func (l *load) work(worker int) {
	buf := make([]byte, max(wroteSize, neighbourSize))
	for turn := 0; !l.stop.Load(); turn++ {
		at := time.Now()
		l.mu.Lock()
		l.busy[worker] = at
		l.mu.Unlock()
		err := l.honest.operate(worker, turn, buf)
		l.mu.Lock()
		l.busy[worker] = time.Time{}
		if l.times = append(l.times, time.Since(later(at, l.began))); err != nil {
			l.errors, l.err = l.errors+1, err
		}
		l.mu.Unlock()
		if err != nil {
			time.Sleep(10 * time.Millisecond)
		}
	}
}

func later(a, b time.Time) time.Time {
	if a.After(b) {
		return a
	}
	return b
}

// window returns the sample of the current window and begins the next.
func (l *load) window() (s sample) {
	l.mu.Lock()
	defer l.mu.Unlock()
	now := time.Now()
	n := len(l.times)
	for _, at := range l.busy {
		if !at.IsZero() { // count the time that an operation in progress has taken so far
			l.times = append(l.times, now.Sub(later(at, l.began)))
		}
	}
	s.Rate = float64(n-l.errors) / now.Sub(l.began).Seconds()
	slices.Sort(l.times)
	if n := len(l.times); n > 0 {
		s.P99, s.Max = l.times[min(n-1, n*99/100)], l.times[n-1]
	}
	if s.Errors = l.errors; l.err != nil {
		s.Err = l.err.Error()
	}
	l.began, l.times, l.errors, l.err = now, nil, 0, nil
	return s
}

func (l *load) end() {
	l.stop.Store(true)
	l.wait.Wait()
}

// A libraryHost is a host of package host.
type libraryHost struct {
	device     *softroce.Device
	host       *host.Host
	controller *host.Controller
	namespace  *host.Namespace
	options    host.Options
	neighbour  bool
}

// newLibraryHost connects a host at an address to a target.
func newLibraryHost(ctx context.Context, o *options, at netip.Addr) (h *libraryHost, err error) {
	h = &libraryHost{options: host.Options{
		Traddr: o.target.Addr(), Trsvcid: o.target.Port(), NQN: nvmeof.NQN(o.nqn), HostNQN: nvmeof.NQN(o.honestNQN),
		DHCHAPSecret: o.honestKey, NrIOQueues: 1, QueueSize: 32, BounceMemory: 2 << 20, Timeout: 15 * time.Second,
	}}
	if h.device, err = softroce.Open(softroce.Config{Addr: at}); err != nil {
		return nil, err
	}
	if h.host, err = host.New(host.Config{Device: h.device, Shards: 1, Polling: nvmeof.PollNever}); err != nil {
		return nil, errors.Join(err, h.device.Close())
	}
	if err = h.connect(ctx); err != nil {
		h.close()
		return nil, err
	}
	return h, nil
}

func (h *libraryHost) connect(ctx context.Context) (err error) {
	if h.controller, err = h.host.Connect(ctx, h.options); err != nil {
		return err
	}
	if h.namespace, err = h.controller.Namespace(ctx, 1); err != nil {
		return err
	}
	if size := h.namespace.Size(); size < region {
		return fmt.Errorf("namespace 1 has %d bytes, the attacks need %d", size, region)
	}
	return nil
}

func (h *libraryHost) operate(worker, turn int, buf []byte) error {
	if h.neighbour {
		_, err := h.namespace.ReadAt(buf[:neighbourSize], int64(worker)*neighbourSize)
		return err
	}
	if turn%2 == 0 {
		_, err := h.namespace.ReadAt(buf[:readSize], rand.Int64N(region/readSize)*readSize)
		return err
	}
	_, err := h.namespace.WriteAt(buf[:wroteSize], rand.Int64N(region/wroteSize)*wroteSize)
	return err
}

func (h *libraryHost) workers() int {
	if h.neighbour {
		return neighbourReads
	}
	return workers
}

func (h *libraryHost) again(ctx context.Context) error {
	if h.controller.Err() == nil {
		return nil
	}
	return h.connect(ctx)
}

func (h *libraryHost) close() {
	_ = h.host.Close()
	_ = h.device.Close()
}

// A deviceHost reads from a block device of this machine, whose host is another program or the kernel.
type deviceHost struct {
	file *os.File
	mem  []byte // aligned as direct I/O requires
}

func newDeviceHost(path string) (*deviceHost, error) {
	f, err := os.OpenFile(path, os.O_RDWR|unix.O_DIRECT, 0)
	if err != nil {
		return nil, err
	}
	mem, err := unix.Mmap(-1, 0, workers*wroteSize, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_ANON|unix.MAP_PRIVATE)
	if err != nil {
		return nil, errors.Join(err, f.Close())
	}
	return &deviceHost{f, mem}, nil
}

func (h *deviceHost) operate(worker, turn int, _ []byte) (err error) {
	mem := h.mem[worker*wroteSize:][:wroteSize]
	if turn%2 == 0 {
		_, err = h.file.ReadAt(mem[:readSize], rand.Int64N(region/readSize)*readSize)
		return err
	}
	_, err = h.file.WriteAt(mem, rand.Int64N(region/wroteSize)*wroteSize)
	return err
}

func (h *deviceHost) workers() int                { return workers }
func (h *deviceHost) again(context.Context) error { return nil }
func (h *deviceHost) close()                      { _ = h.file.Close() }

// noHost is no honest host.
type noHost struct{}

func (noHost) operate(int, int, []byte) error { time.Sleep(10 * time.Millisecond); return nil }
func (noHost) workers() int                   { return 1 }
func (noHost) again(context.Context) error    { return nil }
func (noHost) close()                         {}

func isInUse(err error) bool {
	var inUse *softroce.InUseError
	return errors.As(err, &inUse)
}

// arrive measures how long a new host takes to connect and to read its first block.
func arrive(ctx context.Context, o *options, a *addresses) (d time.Duration, blockSize int, err error) {
	ctx, cancel := context.WithTimeout(ctx, 20*time.Second)
	defer cancel()
	at := time.Now()
	h, err := use(a, func(addr netip.Addr) (*libraryHost, error) { return newLibraryHost(ctx, o, addr) })
	if err != nil {
		return time.Since(at), 0, err
	}
	_, err = h.namespace.ReadAt(make([]byte, readSize), 0)
	d = time.Since(at)
	blockSize = h.namespace.BlockSize()
	if err == nil {
		err = h.controller.Disconnect(ctx)
	}
	h.close()
	return d, blockSize, err
}

// discoverNQN returns the first subsystem in the target's discovery log page.
func discoverNQN(ctx context.Context, o *options, a *addresses) (string, error) {
	device, err := use(a, func(addr netip.Addr) (*softroce.Device, error) { return softroce.Open(softroce.Config{Addr: addr}) })
	if err != nil {
		return "", err
	}
	defer device.Close()
	h, err := host.New(host.Config{Device: device, Shards: 1, Polling: nvmeof.PollNever})
	if err != nil {
		return "", err
	}
	defer h.Close()
	log, err := h.Discover(ctx, host.Options{Traddr: o.target.Addr(), Trsvcid: o.target.Port(), HostNQN: nvmeof.NQN(o.honestNQN)})
	if err != nil {
		return "", err
	}
	for _, e := range log.Entries {
		if e.SUBTYPE == capsule.SubsystemNVM {
			return e.SubNQN.String(), nil
		}
	}
	return "", errors.New("the discovery log lists no subsystem: give its name with -nqn")
}
