package disk

import (
	"errors"
	"fmt"
	"time"

	"golang.org/x/sys/unix"

	"github.com/nvmeof-go/nvmeof/backend"
)

// ErrGone says that the device was removed. Its disk stays latched until it is opened again.
var ErrGone = errors.New("the device was removed: attach it again, then open it again (nvmeof namespace remove, then add)")

// setSize sets the size and reports whether it changed.
func (d *Disk) setSize(size int64) bool {
	info := d.cfg.Info
	info.Size = max(size, 0) &^ (d.block - 1)
	old := d.info.Swap(&info)
	if old != nil && old.Size < info.Size && !d.cfg.Device {
		d.mayAllocate() // what was added has no storage yet
	}
	return old != nil && old.Size != info.Size
}

// mayAllocate says that from now on a write may need storage that the file does not have yet: see Config.Allocates.
func (d *Disk) mayAllocate() { d.noDsync.Store(true) }

// Refresh implements [backend.Resizer].
func (d *Disk) Refresh() (changed bool, err error) {
	err = d.Stat(func(fd int) error {
		size, err := d.cfg.Measure()
		if err == nil {
			changed = d.setSize(size)
			if f := d.cfg.Allocating; f != nil && f(fd) {
				d.mayAllocate()
			}
		}
		return err
	})
	switch {
	case err == nil:
		return changed, nil
	case errors.Is(err, ErrGone):
		d.sync.fail(err)
	case err == backend.ErrClosed:
		return false, err
	}
	return false, fmt.Errorf("size of %s: %w", d.cfg.Name, err)
}

// Failed implements [backend.Latcher].
func (d *Disk) Failed() error {
	f := d.sync.latched()
	if f == nil {
		return nil
	}
	return fmt.Errorf("%s takes no more writes: %w", d.cfg.Name, f.err)
}

// Fail implements [backend.Failer].
func (d *Disk) Fail(why error) { d.sync.fail(why) }

// Sync calls f to sync the descriptor, or another one of the same open file, and returns when that is done, by f or by
// a flush that began after the call. f runs as one of the disk's numbered syncs: a sync beside them could consume the
// only report of a failed write-back. If f fails, the disk is latched. Sync may block, so do not call it from a shard.
func (d *Disk) Sync(f func() error) error {
	y, ticket := &d.sync, d.sync.ticket()
	for {
		if ended, err := y.outcome(ticket); ended {
			return err
		}
		if y.begin(ticket) {
			err := f()
			y.end(err)
			d.blocks.Wake()
			return err
		}
		time.Sleep(syncPause)
	}
}

// syncPause is the interval at which Sync checks whether the running sync has ended.
const syncPause = time.Millisecond

// Clear implements [backend.Latcher]. It first checks that the device is present.
func (d *Disk) Clear() error {
	if f := d.sync.latched(); f == nil {
		return nil
	} else if errors.Is(f.err, ErrGone) {
		return fmt.Errorf("clear the failure of %s: %w", d.cfg.Name, ErrGone)
	}
	if _, err := d.Refresh(); err != nil {
		return fmt.Errorf("clear the failure: %w", err)
	}
	if !d.sync.clear() {
		return fmt.Errorf("clear the failure of %s: a flush is still in progress: try again", d.cfg.Name)
	}
	d.blocks.Wake() // waiting flushes learn that they have failed
	return nil
}

// Steady calls f. It returns how many of the disk's calls had begun to free storage before f, and whether none of them
// overlapped with f. FALLOC_FL_ZERO_RANGE counts as freeing, since a file system may free a range and allocate it
// again.
func (d *Disk) Steady(f func()) (before int64, is bool) {
	ended := d.freed.Load()
	before = d.freeing.Load()
	f()
	return before, before == ended && d.freeing.Load() == before
}

// Copied reports whether the file system has made a copy. XFS leaves holes in a copy of a range that was never written.
func (d *Disk) Copied() bool { return d.copied.Load() }

// isGone reports whether an error means that the device no longer exists.
func isGone(errno unix.Errno) bool {
	return errno == unix.ENODEV || errno == unix.ENXIO || errno == unix.ESHUTDOWN
}
