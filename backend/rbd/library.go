//go:build rbd && cgo && linux

package rbd

/*
#cgo CFLAGS: -O2
#cgo LDFLAGS: -ldl
#cgo noescape nr_start
#cgo nocallback nr_start
#include "shim.h"
#include <stdlib.h>
*/
import "C"

import (
	"errors"
	"fmt"
	"unsafe"

	"golang.org/x/sys/unix"
)

// Built reports whether this program has the storage.
const Built = true

// What C and Go both declare is of one size.
var (
	_ [unsafe.Sizeof(call{})]byte   = [C.sizeof_struct_nr_call]byte{}
	_ [unsafe.Sizeof(header{})]byte = [C.sizeof_struct_nr_ring]byte{}
	_ [argSize]byte                 = [C.sizeof_struct_nr_arg]byte{}
)

// A cluster is a client of one.
type cluster struct {
	lib    *C.struct_nr_lib
	handle unsafe.Pointer
	pool   unsafe.Pointer // nil until it is entered
}

// A libraryImage implements image.
type libraryImage struct {
	cluster
	handle unsafe.Pointer
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

// failure is the error of a call of the shim, or nil.
func failureOf(doing string, code C.int) error {
	if code >= 0 {
		return nil
	}
	return explain(doing, unix.Errno(-code))
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

// dial implements dialer.
func dial(n Name, cfg *Config) (image, error) {
	lib, err := loadLibrary()
	if err != nil {
		return nil, err
	}
	c, err := connect(lib, cfg)
	if err != nil {
		C.free(unsafe.Pointer(lib))
		return nil, err
	}
	i, err := c.open(n, cfg)
	if err != nil {
		c.leave()
		return nil, err
	}
	return i, nil
}

func connect(lib *C.struct_nr_lib, cfg *Config) (*cluster, error) {
	var t texts
	defer t.free()
	c := &cluster{lib: lib}
	code := C.nr_connect(lib, t.add(cfg.Conf), t.add(cfg.ID), &c.handle)
	switch unix.Errno(-code) {
	case 0:
		return c, nil
	case unix.ENOENT:
		if cfg.Conf == "" {
			return nil, fmt.Errorf("connect to the cluster: %w: there is no configuration or keyring where Ceph's programs look for it (/etc/ceph/ceph.conf, CEPH_CONF); give conf=FILE", unix.ENOENT)
		}
		return nil, fmt.Errorf("connect to the cluster: %w: %s, or the keyring that it names, is missing", unix.ENOENT, cfg.Conf)
	}
	return nil, failureOf("connect to the cluster", code)
}

// leave ends the client.
func (c *cluster) leave() {
	if c.pool != nil {
		C.nr_leave_pool(c.lib, c.pool)
	}
	C.nr_shutdown(c.lib, c.handle)
	C.free(unsafe.Pointer(c.lib))
}

// open opens an image of the cluster, or creates it.
func (c *cluster) open(n Name, cfg *Config) (*libraryImage, error) {
	var t texts
	defer t.free()
	if err := failureOf("pool "+n.Pool, C.nr_pool(c.lib, c.handle, t.add(n.Pool), t.add(n.Namespace), &c.pool)); err != nil {
		return nil, err
	}
	name, snapshot, readOnly := t.add(n.Image), t.add(n.Snapshot), C.int(0)
	if cfg.readOnly(&n) {
		readOnly = 1
	}
	var handle unsafe.Pointer
	code := C.nr_open(c.lib, c.pool, name, snapshot, readOnly, &handle)
	if unix.Errno(-code) == unix.ENOENT && cfg.Size > 0 {
		err := failureOf("create", C.nr_create(c.lib, c.pool, name, C.uint64_t(cfg.Size)))
		if err != nil && !errors.Is(err, unix.EEXIST) {
			return nil, err
		}
		code = C.nr_open(c.lib, c.pool, name, snapshot, readOnly, &handle)
	}
	if unix.Errno(-code) == unix.ENOENT {
		return nil, fmt.Errorf("%w: there is no such image: give a size to create it", unix.ENOENT)
	}
	if err := failureOf("open", code); err != nil {
		return nil, err
	}
	return &libraryImage{*c, handle}, nil
}

func (i *libraryImage) start(r *ring, calls []call) {
	C.nr_start(i.lib, i.handle, (*C.struct_nr_ring)(unsafe.Pointer(r.header)), (*C.struct_nr_call)(unsafe.Pointer(&calls[0])), C.size_t(len(calls)))
}

func (i *libraryImage) look() (geometry, error) {
	var size, unit, features C.uint64_t
	err := failureOf("look at the image", C.nr_look(i.lib, i.handle, &size, &unit, &features))
	return geometry{int64(size), int64(unit), uint64(features)}, err
}

func (i *libraryImage) mark() ([]byte, error) {
	const size = 128
	b := (*C.char)(C.calloc(1, size))
	defer C.free(unsafe.Pointer(b))
	err := failureOf("identifier of the cluster", C.nr_fsid(i.lib, i.cluster.handle, b, size))
	if err != nil {
		return nil, err
	}
	mark := C.GoString(b) + "/"
	err = failureOf("identifier of the image", C.nr_id(i.lib, i.handle, b, size))
	return []byte(mark + C.GoString(b)), err
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
