//go:build rbd && cgo && linux

package rbd

/*
#cgo CFLAGS: -O2
#cgo LDFLAGS: -ldl -lpthread
#include "shim.h"
#include <stdlib.h>
*/
import "C"

import (
	"errors"
	"fmt"
	"unsafe"

	"golang.org/x/sys/unix"

	"github.com/nvmeof-go/nvmeof/internal/librados"
)

// Built reports whether this program has RBD storage.
const Built = true

// The sizes of the structures declared in both C and Go must agree.
var (
	_ [unsafe.Sizeof(call{})]byte    = [C.sizeof_struct_nr_call]byte{}
	_ [unsafe.Sizeof(header{})]byte  = [C.sizeof_struct_nr_ring]byte{}
	_ [argSize]byte                  = [C.sizeof_struct_nr_arg]byte{}
	_ [unsafe.Sizeof(starter{})]byte = [C.sizeof_struct_nr_starter]byte{}
)

// A libraryImage implements image.
type libraryImage struct {
	lib    *C.struct_nr_lib
	client libraryClient
	own    bool // the client is closed with the image
	pool   *librados.Pool
	handle unsafe.Pointer
	image  *C.struct_nr_image // the image, for calls
}

// texts are C strings to be freed together.
type texts []*C.char

func (t *texts) add(s string) *C.char {
	c := C.CString(s)
	*t = append(*t, c)
	return c
}

func (t *texts) free() {
	for _, c := range *t {
		C.free(unsafe.Pointer(c))
	}
}

// failureOf returns the error for a result of the shim, or nil.
func failureOf(doing string, code C.int) error {
	if code >= 0 {
		return nil
	}
	return librados.Explain(doing, unix.Errno(-code))
}

func loadLibrary() (*C.struct_nr_lib, error) {
	const size = 512
	message := (*C.char)(C.calloc(1, size))
	defer C.free(unsafe.Pointer(message))
	lib := C.nr_open_lib(message, size)
	if lib == nil {
		return nil, &LibraryError{Detail: C.GoString(message)}
	}
	return lib, nil
}

// settings override the configuration:
//
//   - A completed write is durable.
//   - Data of writes is copied, as by default. Without copying, librbd 16.2 never ends a write that it refuses because
//     the lock is missing, such as that of a blocklisted client: it waits for the release of the data, which is
//     released when the write has ended.
//   - Calls begin in the calling thread, which is a starter's and may block. Otherwise another thread of librbd would
//     have to be woken for each call.
//   - The number and size of a client's outstanding requests are not limited. At the limit the starter would wait for
//     answers of one image that may never arrive, and the other images would wait for it. The owner of the queues
//     limits the requests.
//   - One thread of the client ends requests, instead of two: it has little to do for each, and two would alternate,
//     with a thread switch for every answer.
var settings = []librados.Setting{
	{Name: "rbd_cache", Value: "false"},
	{Name: "rbd_disable_zero_copy_writes", Value: "true"},
	{Name: "rbd_persistent_cache_mode", Value: "disabled"},
	{Name: "rbd_non_blocking_aio", Value: "false"},
	{Name: "client_mount_timeout", Value: "30"},
	{Name: "objecter_inflight_ops", Value: "0"},
	{Name: "objecter_inflight_op_bytes", Value: "0"},
	{Name: "librados_thread_count", Value: "1"},
}

// dial implements dialer.
func dial(n Name, cfg *Config) (image, error) {
	lib, err := loadLibrary()
	if err != nil {
		return nil, err
	}
	i := &libraryImage{lib: lib, own: cfg.Client == nil}
	if i.own {
		i.client, err = connect(cfg.Conf, cfg.ID)
	} else {
		i.client = cfg.Client.conn.(libraryClient)
	}
	if err != nil {
		C.free(unsafe.Pointer(lib))
		return nil, err
	}
	if err := i.open(n, cfg); err != nil {
		i.leave()
		return nil, err
	}
	return i, nil
}

// remove removes an image.
func remove(n Name, cfg *Config) (err error) {
	i := &libraryImage{own: cfg.Client == nil}
	if i.lib, err = loadLibrary(); err != nil {
		return err
	}
	if i.own {
		i.client, err = connect(cfg.Conf, cfg.ID)
	} else {
		i.client = cfg.Client.conn.(libraryClient)
	}
	if err != nil {
		C.free(unsafe.Pointer(i.lib))
		return err
	}
	defer i.leave()
	if i.pool, err = i.client.Pool(n.Pool, n.Namespace); err != nil {
		return err
	}
	var t texts
	defer t.free()
	return failureOf("remove", C.nr_remove(i.lib, i.pool.Handle(), t.add(n.Image)))
}

// leave closes the client, if it is the image's own.
func (i *libraryImage) leave() {
	if i.pool != nil {
		i.pool.Close()
	}
	C.free(unsafe.Pointer(i.image))
	if i.own {
		i.client.Close()
	}
	C.free(unsafe.Pointer(i.lib))
}

// open opens or creates an image of the cluster.
func (i *libraryImage) open(n Name, cfg *Config) (err error) {
	if i.pool, err = i.client.Pool(n.Pool, n.Namespace); err != nil {
		return err
	}
	var t texts
	defer t.free()
	name, snapshot, readOnly := t.add(n.Image), t.add(n.Snapshot), C.int(0)
	if cfg.readOnly(&n) {
		readOnly = 1
	}
	code := C.nr_open(i.lib, i.pool.Handle(), name, snapshot, readOnly, &i.handle)
	if unix.Errno(-code) == unix.ENOENT && cfg.Size > 0 {
		err := failureOf("create", C.nr_create(i.lib, i.pool.Handle(), name, C.uint64_t(cfg.Size)))
		if err != nil && !errors.Is(err, unix.EEXIST) {
			return err
		}
		code = C.nr_open(i.lib, i.pool.Handle(), name, snapshot, readOnly, &i.handle)
	}
	if unix.Errno(-code) == unix.ENOENT {
		return fmt.Errorf("%w: there is no such image: give a size to create it", unix.ENOENT)
	}
	if err := failureOf("open", code); err != nil {
		return err
	}
	if i.image = C.nr_image(i.lib, i.handle); i.image == nil {
		return errors.Join(unix.ENOMEM, failureOf("close", C.nr_close(i.lib, i.handle)))
	}
	return nil
}

// start implements image. It does not call C: a long call wakes the Go scheduler's monitor, which takes more processor
// time than the call.
func (i *libraryImage) start(r *ring, calls []call) {
	for at := range calls {
		calls[at].image = uint64(uintptr(unsafe.Pointer(i.image)))
	}
	i.client.starter.add(r, calls)
}

func (i *libraryImage) look() (geometry, error) {
	var size, unit, features C.uint64_t
	err := failureOf("look at the image", C.nr_look(i.lib, i.handle, &size, &unit, &features))
	return geometry{int64(size), int64(unit), uint64(features)}, err
}

func (i *libraryImage) mark() ([]byte, error) {
	cluster, err := i.client.FSID()
	if err != nil {
		return nil, err
	}
	id, err := i.id()
	return []byte(cluster + "/" + id), err
}

// id returns the image's identifier in its pool.
func (i *libraryImage) id() (string, error) {
	const size = 128
	b := (*C.char)(C.calloc(1, size))
	defer C.free(unsafe.Pointer(b))
	err := failureOf("identifier of the image", C.nr_id(i.lib, i.handle, b, size))
	return C.GoString(b), err
}

// succeed implements image. The lock has the name that librbd gives to the lock on an image's header.
func (i *libraryImage) succeed(admits func(address string) bool) error {
	id, err := i.id()
	if err != nil {
		return err
	}
	return i.pool.BreakLock("rbd_header."+id, "rbd_lock", func(address string) bool { return admits(plain(address)) })
}

func (i *libraryImage) dataPool() (string, error) {
	id := C.nr_data_pool(i.lib, i.handle)
	if id < 0 {
		return "", failureOf("pool of the image's data", C.int(id))
	}
	return i.client.PoolName(int64(id))
}

func (i *libraryImage) resize(size int64) error {
	return failureOf("resize", C.nr_resize(i.lib, i.handle, C.uint64_t(size)))
}

func (i *libraryImage) used(size int64) (int64, error) {
	var n C.uint64_t
	err := failureOf("count the objects", C.nr_used(i.lib, i.handle, C.uint64_t(size), &n))
	return int64(n), err
}

func (i *libraryImage) lock() error {
	return failureOf("acquire the exclusive lock", C.nr_lock(i.lib, i.handle))
}

func (i *libraryImage) owner() (string, error) {
	const size = 256
	b := (*C.char)(C.calloc(1, size))
	defer C.free(unsafe.Pointer(b))
	err := failureOf("owner of the lock", C.nr_owner(i.lib, i.handle, b, size))
	return C.GoString(b), err
}

func (i *libraryImage) close() error {
	err := failureOf("close", C.nr_close(i.lib, i.handle))
	i.leave()
	return err
}
