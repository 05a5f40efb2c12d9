package storage

import (
	"errors"
	"fmt"
	"path"
	"reflect"

	"go.uber.org/zap"

	"github.com/nvmeof-go/nvmeof/backend"
	"github.com/nvmeof-go/nvmeof/capsule"
	"github.com/nvmeof-go/nvmeof/nvmeof/events"
)

// Blocks returns the size in blocks, as reported to hosts.
func (v *Volume) Blocks() uint64 { return v.size.Load() }

// Bytes returns the size in bytes.
func (v *Volume) Bytes() uint64 { return v.Blocks() << v.Shift }

// Kind returns the last element of the import path of the store's type: memory, file, block, or that of another
// implementation.
func (v *Volume) Kind() string {
	t := reflect.TypeOf(v.store)
	if t.Kind() == reflect.Pointer {
		t = t.Elem()
	}
	return path.Base(t.PkgPath())
}

// InRange reports whether a number of blocks from slba exist.
func (v *Volume) InRange(slba capsule.LBA, blocks uint32) bool {
	return capsule.InRange(uint64(slba), uint64(blocks), v.Blocks())
}

// Used returns NUSE: how many blocks are allocated. Shards call it, so it must not wait for a file system or
// device: if the store is on one (it is a backend.Resizer), the result is that of the last examination.
func (v *Volume) Used() uint64 {
	if _, ok := v.store.(backend.Resizer); !ok {
		v.count(v.store.Allocated())
	}
	return min(v.used.Load(), v.Blocks())
}

// count sets how much is allocated, in bytes. With an error it is everything.
func (v *Volume) count(allocated int64, err error) {
	if err != nil || allocated < 0 {
		allocated = v.Info.Size
	}
	v.used.Store((uint64(allocated) + 1<<v.Shift - 1) >> v.Shift)
}

// refresh lets the store read its own size and, with count, counts how much is allocated. The store stays open
// meanwhile; see Volumes.Release.
func (v *Volume) refresh(count bool) error {
	v.querying.Lock()
	defer v.querying.Unlock()
	r, ok := v.store.(backend.Resizer)
	if !ok || v.closed {
		return nil
	}
	_, err := r.Refresh()
	if count {
		v.count(v.store.Allocated())
	}
	return err
}

// Revalidate adopts the current size of the store, and reports whether it has changed.
func (v *Volume) Revalidate() (resized bool) { return v.revalidate(true) }

func (v *Volume) revalidate(count bool) (resized bool) {
	err := v.refresh(count) // may take as long as a system call
	v.volumes.mu.Lock()
	defer v.volumes.mu.Unlock()
	return len(v.users) > 0 && v.adopt(err)
}

var errNothing = errors.New("less than one block is left: its data is lost; stop the hosts, and restore it")

// cut describes what is wrong with the size, or returns an empty string. Called with querying held.
func (v *Volume) cut() string {
	if why := v.blind.Load(); why != nil {
		return "its size is no longer known: " + (*why).Error()
	}
	if had := v.whole.Load() << v.Shift; had > v.Bytes() {
		return fmt.Sprintf("it had %d bytes, and now has %d: the data beyond its end is lost; unless this is intended, stop the hosts, and restore the data "+
			"before it is enlarged again; if it is intended: nvmeof namespace clear-fault", had, v.Bytes())
	}
	return v.holes.why()
}

// adopt adopts the current size of the store. Called with the mutex of Volumes held.
func (v *Volume) adopt(err error) (resized bool) {
	size := v.store.Info().Size
	for _, region := range v.regions {
		size = min(size, int64(len(region.Bytes()))) // the registered memory does not grow
	}
	blocks, before := uint64(max(size, 0))>>v.Shift, v.Blocks()
	if err == nil && blocks == 0 {
		err = errNothing // hosts keep the size that was reported last, and every command fails
	}
	switch {
	case err == nil:
		v.blind.Store(nil)
	case v.blind.Swap(&err) == nil:
		v.recordEvent(events.Error, "its size is no longer known: "+err.Error())
		v.volumes.log.Error("size of a namespace is no longer known", zap.String("export", v.Name), zap.Error(err))
	}
	if blocks == before || blocks == 0 {
		return false
	}
	v.size.Store(blocks)
	v.recordEvent(events.Info, fmt.Sprintf("resized from %d to %d bytes", before<<v.Shift, blocks<<v.Shift))
	v.volumes.log.Info("namespace resized", zap.String("export", v.Name),
		zap.Uint64("bytes", blocks<<v.Shift), zap.Uint64("bytes_before", before<<v.Shift))
	if blocks >= v.whole.Load() {
		v.whole.Store(0)
	}
	if blocks < before {
		v.whole.Store(max(before, v.whole.Load()))
		v.recordEvent(events.Error, "became shorter while it is served: the data beyond its end is lost")
		v.volumes.log.Error("namespace became shorter while it is served: the data beyond its end is lost", zap.String("export", v.Name),
			zap.String("remedy", "unless this is intended, stop the hosts, and restore the data before the file or device is enlarged again"))
	}
	return true
}
