//go:build rbd && cgo && linux

package librados

/*
#include "shim.h"
#include <stdlib.h>
*/
import "C"

import (
	"bytes"
	"encoding/binary"
	"runtime"

	"unsafe"

	"golang.org/x/sys/unix"
)

// A Pool is a client's access to a pool of the cluster, or to a namespace of it.
type Pool struct {
	client *Client
	handle *C.struct_nl_pool
}

// Pool opens a pool. The namespace may be empty.
func (c *Client) Pool(pool, namespace string) (*Pool, error) {
	var t texts
	defer t.free()
	p := &Pool{client: c}
	if code := C.nl_pool(c.lib, c.handle, t.add(pool), t.add(namespace), &p.handle); code < 0 {
		return nil, explainPool(pool, unix.Errno(-code))
	}
	return p, nil
}

// Close releases the pool.
func (p *Pool) Close() { C.nl_leave_pool(p.handle) }

// Handle returns the library's handle (rados_ioctx_t).
func (p *Pool) Handle() unsafe.Pointer { return C.nl_context(p.handle) }

// Stat returns an error if there is no such object.
func (p *Pool) Stat(object string) error {
	var t texts
	defer t.free()
	if code := C.nl_exists(p.handle, t.add(object)); code < 0 {
		return Explain("object "+object, unix.Errno(-code))
	}
	return nil
}

// Steps are executed atomically: all of them or none.
type Steps struct{ b []byte }

// Create creates the object, and fails with EEXIST if it exists.
func (s *Steps) Create() { s.add(C.NL_CREATE, "", nil) }

// Compare fails with ECANCELED unless the key has the value. A missing key has the empty value.
func (s *Steps) Compare(key string, value []byte) { s.add(C.NL_COMPARE, key, value) }

// Set sets the value of a key.
func (s *Steps) Set(key string, value []byte) { s.add(C.NL_SET, key, value) }

// Remove removes a key, which may be missing.
func (s *Steps) Remove(key string) { s.add(C.NL_REMOVE, key, nil) }

func (s *Steps) add(kind uint32, key string, value []byte) {
	s.b = binary.NativeEndian.AppendUint32(s.b, kind)
	s.b = binary.NativeEndian.AppendUint32(s.b, uint32(len(key)))
	s.b = binary.NativeEndian.AppendUint32(s.b, uint32(len(value)))
	s.b = append(append(s.b, key...), value...)
}

// Write executes steps on an object.
func (p *Pool) Write(object string, s *Steps) error {
	var t texts
	defer t.free()
	defer runtime.KeepAlive(s)
	return check("write", C.nl_write(p.handle, t.add(object), (*C.char)(unsafe.Pointer(unsafe.SliceData(s.b))), C.size_t(len(s.b))))
}

// An Entry is a key of an object and its value.
type Entry struct {
	Key   string
	Value []byte
}

// A Listing requests entries of an object in the order of their keys.
type Listing struct {
	Prefix, After string // without zero bytes
	Most          uint32
}

// A Listed is the result of a Listing.
type Listed struct {
	Entries []Entry
	More    bool // there are further entries
}

// Read returns the entries of those keys that exist, and those of listings. All are from one point in time.
func (p *Pool) Read(object string, keys []string, lists []Listing) (named []Entry, listed []Listed, err error) {
	var t texts
	defer t.free()
	var s, l Steps
	for _, k := range keys {
		s.add(C.NL_COMPARE, k, nil)
	}
	for _, one := range lists {
		l.add(one.Most, one.After+"\x00", []byte(one.Prefix+"\x00"))
	}
	var entries *C.char
	var size C.size_t
	more := make([]byte, len(lists)+1)
	code := C.nl_read(p.handle, t.add(object), (*C.char)(unsafe.Pointer(unsafe.SliceData(s.b))), C.size_t(len(s.b)),
		(*C.char)(unsafe.Pointer(unsafe.SliceData(l.b))), C.size_t(len(l.b)), &entries, &size, (*C.uchar)(unsafe.SliceData(more)))
	defer C.free(unsafe.Pointer(entries))
	if err := check("read", code); err != nil {
		return nil, nil, err
	}
	listed = make([]Listed, len(lists))
	for i := range listed {
		listed[i].More = more[i] != 0
	}
	named = split(unsafe.Slice((*byte)(unsafe.Pointer(entries)), size), listed)
	return named, listed, nil
}

// split parses and copies entries, and adds those of lists to these.
func split(b []byte, listed []Listed) (named []Entry) {
	for len(b) > 0 {
		kind, k, v := binary.NativeEndian.Uint32(b), binary.NativeEndian.Uint32(b[4:]), binary.NativeEndian.Uint32(b[8:])
		b = b[12:]
		e := Entry{Key: string(b[:k]), Value: bytes.Clone(b[k : k+v])}
		if b = b[k+v:]; kind == 0 {
			named = append(named, e)
		} else {
			of := &listed[kind-1]
			of.Entries = append(of.Entries, e)
		}
	}
	return named
}
