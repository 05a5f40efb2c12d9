package disk

import (
	"errors"
	"fmt"
	"time"

	"golang.org/x/sys/unix"

	"github.com/nvmeof-go/nvmeof/backend"
)

// ErrGone says that the device was taken away. Its disk is latched for good.
var ErrGone = errors.New("the device is gone: bring it back, then open it again")

// setSize publishes a size and reports whether it is another one.
func (d *Disk) setSize(size int64) bool {
	info := d.cfg.Info
	info.Size = max(size, 0) &^ (d.block - 1)
	old := d.info.Swap(&info)
	if old != nil && old.Size < info.Size && !d.cfg.Device {
		d.noDsync.Store(true) // what was added has no storage yet: see Config.Allocates
	}
	return old != nil && old.Size != info.Size
}

// Refresh implements [backend.Resizer].
func (d *Disk) Refresh() (changed bool, err error) {
	err = d.Stat(func(int) error {
		size, err := d.cfg.Measure()
		if err == nil {
			changed = d.setSize(size)
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

// Sync has f sync the descriptor, or another of the same open file, and returns when that has been done, by f or
// by a flush that began meanwhile. It is one of the disk's syncs: beside another one it could take along, or have
// taken, the one report of what was not written, and if it fails so has the disk. It is not for a shard.
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

// syncPause is between two looks whether the sync that runs has ended.
const syncPause = time.Millisecond

// Clear implements [backend.Latcher]. It checks first whether the device is there.
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
		return fmt.Errorf("clear the failure of %s: a flush is still under way: try again", d.cfg.Name)
	}
	d.blocks.Wake() // flushes that wait learn that they have failed
	return nil
}

// Steady calls f, and reports whether none of the disk's own calls was giving storage back meanwhile, and how many had before. Of
// those FALLOC_FL_ZERO_RANGE is one: a file system may take the storage of a range away, and give it other.
func (d *Disk) Steady(f func()) (before int64, is bool) {
	ended := d.freed.Load()
	before = d.freeing.Load()
	f()
	return before, before == ended && d.freeing.Load() == before
}

// Copied reports whether the file system has copied: XFS leaves holes in a copy of what nobody has written to.
func (d *Disk) Copied() bool { return d.copied.Load() }

// isGone reports whether an error means that there is no device any more.
func isGone(errno unix.Errno) bool {
	return errno == unix.ENODEV || errno == unix.ENXIO || errno == unix.ESHUTDOWN
}
