//go:build verbs && cgo && linux

package verbs

// #include "shim.h"
import "C"

import (
	"errors"
	"fmt"
	"net/netip"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/sys/unix"

	"github.com/nvmeof-go/nvmeof/rdmatransport"
)

// Why a device is lost. All are [rdmatransport.ErrDeviceLost].
var (
	// ErrRemoved ends the queue pairs of a device that the system has taken away.
	ErrRemoved = fmt.Errorf("verbs: %w: the system has removed it", rdmatransport.ErrDeviceLost)
	// ErrBroken ends those of a device that reports an error of its own.
	ErrBroken = fmt.Errorf("verbs: %w: it reports a fatal error", rdmatransport.ErrDeviceLost)
	// ErrMoved ends those of a device whose address has moved to another interface
	// (a bond that fails over).
	ErrMoved = fmt.Errorf("verbs: %w: its address has moved to another interface", rdmatransport.ErrDeviceLost)
)

// A token stands for a connection or a listener in the RDMA CM's events. None is
// used twice.
type token uint64

// anchorToken is that of the identifier that holds the device's address.
const anchorToken token = 1

// device implements rdmatransport.Device: one port of an RDMA device.
type device struct {
	cfg     Config
	addr    netip.Addr
	start   time.Time
	lib     *C.struct_nv_lib
	channel *C.struct_rdma_event_channel
	anchor  *C.struct_rdma_cm_id // bound to addr, reports the device's removal
	context *C.struct_ibv_context
	cmFD    int
	asyncFD int
	hw      C.struct_nv_attrs
	path    string // in sysfs, while the device is there
	attrs   rdmatransport.Attrs
	gone    atomic.Bool // the system has taken the device away

	mu        sync.Mutex // guards all below
	queues    []*completionQueue
	carrier   *completionQueue // polls the RDMA CM
	vector    int              // of the next completion queue
	domains   map[*domain]struct{}
	conns     map[token]*connection
	listeners map[token]*listener
	last      token
	lost      error // why nothing works any more; nil while it does
	closed    bool
}

// Attrs implements rdmatransport.Device.
func (d *device) Attrs() rdmatransport.Attrs { return d.attrs }

// clock is the time since the device was opened, on the monotonic clock.
func (d *device) clock() time.Duration { return time.Since(d.start) }

// newToken is called with mu held.
func (d *device) newToken() token {
	d.last++
	return d.last
}

// usable says why nothing new can begin. Called with mu held.
func (d *device) usable() error {
	switch {
	case d.closed:
		return rdmatransport.ErrClosed
	}
	return d.lost
}

// NewCompletionQueue implements rdmatransport.Device.
func (d *device) NewCompletionQueue(cfg rdmatransport.CQConfig) (rdmatransport.CompletionQueue, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if err := d.usable(); err != nil {
		return nil, err
	}
	if len(d.queues) == d.attrs.Shards {
		return nil, fmt.Errorf("verbs: all %d completion queues of %s are in use", d.attrs.Shards, d.attrs.Name)
	}
	c, err := newCompletionQueue(d, cfg.Depth, d.vector%int(d.hw.comp_vectors))
	if err != nil {
		return nil, err
	}
	if d.carrier == nil {
		if err := c.carry(); err != nil {
			return nil, errors.Join(err, c.destroy())
		}
		d.carrier = c
	}
	d.vector++
	d.queues = append(d.queues, c)
	return c, nil
}

// forget is what becomes of a completion queue that is closed. It reports whether
// it was open.
func (d *device) forget(c *completionQueue) bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	for i, q := range d.queues {
		if q == c {
			d.queues = append(d.queues[:i], d.queues[i+1:]...)
			if d.carrier == c {
				d.carrier = nil // the next one that is opened takes over
			}
			return true
		}
	}
	return false
}

// lose ends every queue pair and listener.
func (d *device) lose(why error) {
	if errors.Is(why, ErrRemoved) || d.absent() {
		d.gone.Store(true)
		why = ErrRemoved
	}
	d.mu.Lock()
	if d.lost != nil || d.closed {
		d.mu.Unlock()
		return
	}
	d.lost = why
	queues := append([]*completionQueue(nil), d.queues...)
	d.mu.Unlock()
	for _, l := range d.takeListeners() {
		l.shut(why)
	}
	for _, c := range queues {
		c.do(func() { c.abandon(why) })
	}
}

// absent reports whether the system has no such device.
func (d *device) absent() bool { return errors.Is(unix.Access(d.path, unix.F_OK), unix.ENOENT) }

// freed is the outcome of freeing an object. The kernel has freed those of a device
// that is gone.
func (d *device) freed(code C.int, doing string) error {
	if d.gone.Load() && (code == -C.int(unix.EIO) || code == -C.int(unix.ENODEV)) {
		return nil
	}
	return failure(code, doing)
}

// Close implements rdmatransport.Device: every peer is notified, nothing is awaited.
func (d *device) Close() error {
	d.mu.Lock()
	if d.closed {
		d.mu.Unlock()
		return nil
	}
	d.closed = true
	queues := append([]*completionQueue(nil), d.queues...)
	d.mu.Unlock()
	if d.absent() {
		d.gone.Store(true)
	}
	var errs []error
	for _, l := range d.takeListeners() {
		l.shut(rdmatransport.ErrClosed)
	}
	for _, c := range queues {
		errs = append(errs, c.closeQueuePairs(), c.closeShared())
	}
	for _, c := range d.takeConnections() {
		c.destroy()
	}
	for _, c := range queues {
		errs = append(errs, c.Close())
	}
	d.mu.Lock()
	domains := d.domains
	d.domains = nil // who closes one later frees nothing again
	d.mu.Unlock()
	for dom := range domains {
		errs = append(errs, dom.destroy())
	}
	return errors.Join(append(errs, d.release())...)
}

// release frees what open took. It also serves an open that failed half way.
func (d *device) release() error {
	var err error
	if d.context != nil {
		err = d.freed(C.nv_close_device(d.lib, d.context), "closing the device")
	}
	if d.anchor != nil {
		if d.gone.Load() { // else the device could not go
			err = errors.Join(err, failure(C.nv_forsake_device(d.anchor), "closing the device's files that librdmacm keeps"))
		}
		C.nv_destroy_id(d.lib, d.anchor)
	}
	if d.channel != nil {
		C.nv_destroy_channel(d.lib, d.channel)
	}
	C.nv_close_lib(d.lib)
	return err
}

func (d *device) takeListeners() []*listener {
	d.mu.Lock()
	defer d.mu.Unlock()
	var all []*listener
	for _, l := range d.listeners {
		all = append(all, l)
	}
	clear(d.listeners)
	return all
}

func (d *device) takeConnections() []*connection {
	d.mu.Lock()
	defer d.mu.Unlock()
	var all []*connection
	for _, c := range d.conns {
		all = append(all, c)
	}
	clear(d.conns)
	return all
}

var _ rdmatransport.Device = (*device)(nil)
