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

// Built reports whether this program has the storage.
const Built = true

// What C and Go both declare is of one size.
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
	own    bool // the client ends with the image
	pool   *librados.Pool
	handle unsafe.Pointer
	image  *C.struct_nr_image // that, for calls
}

// texts are C strings until they are freed.
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

// failureOf is the error of a call of the shim, or nil.
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

// settings are what must be so, whatever the configuration says: a write is durable when it is
// complete. Its data are copied, which librbd does by default. When they are not, a write that
// librbd 16.2 refuses for want of the lock, as that of a client that is blocklisted, never ends: it
// waits for the release of its data, and they are released when it has ended. Calls begin in the thread
// that makes them, which is a starter's and may wait: otherwise another thread of librbd's has to be woken
// for each. How many requests a client has, and of how many bytes, is not limited: at the limit the starter
// would wait for answers, of which those of one image may not come, and those of others would wait for it. Who
// has the queues limits what is outstanding. One thread of the client's ends requests, instead of two: it has
// little to do for each, and two take turns, with a switch between them for every answer.
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

// leave ends the client, if it is the image's own.
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

// open opens an image of the cluster, or creates it.
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

// start implements image. It calls no C: a call that lasts has the Go scheduler's monitor woken, which
// takes more processor time than the call.
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

// id is the image's in its pool.
func (i *libraryImage) id() (string, error) {
	const size = 128
	b := (*C.char)(C.calloc(1, size))
	defer C.free(unsafe.Pointer(b))
	err := failureOf("identifier of the image", C.nr_id(i.lib, i.handle, b, size))
	return C.GoString(b), err
}

// succeed implements image. The lock is one of the image's header, which librbd names so.
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
