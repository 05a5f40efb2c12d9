//go:build rbd && cgo && linux

package librados

/*
#cgo CFLAGS: -O2
#cgo LDFLAGS: -ldl -lpthread
#include "shim.h"
#include <stdlib.h>
*/
import "C"

import (
	"fmt"
	"strings"
	"unsafe"

	"golang.org/x/sys/unix"
)

// A MissingError says why the library cannot be loaded, in the words of dlopen(3).
type MissingError string

func (e MissingError) Error() string { return string(e) }

// A Config selects a cluster and the user as which to connect.
type Config struct {
	Conf string // path of the configuration; "": where Ceph's programs look for it
	ID   string // without "client."; "": admin

	Settings []Setting // override those of the configuration
}

// A Setting is an option of Ceph. A library that does not know the option ignores it.
type Setting struct{ Name, Value string }

// A Client is a client of a cluster. Any goroutine may call its methods, but not after Close.
type Client struct {
	lib    *C.struct_nl_lib
	handle unsafe.Pointer
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

// check returns the error for a result of the shim, or nil.
func check(doing string, code C.int) error {
	if code >= 0 {
		return nil
	}
	return fmt.Errorf("%s: %w", doing, unix.Errno(-code))
}

func load() (*C.struct_nl_lib, error) {
	const size = 512
	message := (*C.char)(C.calloc(1, size))
	defer C.free(unsafe.Pointer(message))
	lib := C.nl_open_lib(message, size)
	if lib == nil {
		return nil, MissingError(C.GoString(message))
	}
	return lib, nil
}

// Connect loads the library and connects a client.
func Connect(cfg Config) (*Client, error) {
	lib, err := load()
	if err != nil {
		return nil, err
	}
	var t texts
	defer t.free()
	var settings strings.Builder
	for _, s := range cfg.Settings {
		settings.WriteString(s.Name + "\x00" + s.Value + "\x00")
	}
	c := &Client{lib: lib}
	code := C.nl_connect(lib, t.add(cfg.Conf), t.add(cfg.ID), t.add(settings.String()), &c.handle)
	if code < 0 {
		C.free(unsafe.Pointer(lib))
		return nil, explainConnect(cfg.Conf, cfg.ID, unix.Errno(-code))
	}
	return c, nil
}

// Close ends the client.
func (c *Client) Close() {
	C.nl_shutdown(c.lib, c.handle)
	C.free(unsafe.Pointer(c.lib))
}

// Handle returns the library's handle (rados_t), for other libraries of Ceph.
func (c *Client) Handle() unsafe.Pointer { return c.handle }

// Set changes a setting of a connected client.
func (c *Client) Set(s Setting) error {
	var t texts
	defer t.free()
	return check("set "+s.Name, C.nl_set(c.lib, c.handle, t.add(s.Name), t.add(s.Value)))
}

// FSID returns the identifier of the cluster.
func (c *Client) FSID() (string, error) {
	const size = 64
	b := (*C.char)(C.calloc(1, size))
	defer C.free(unsafe.Pointer(b))
	err := check("identifier of the cluster", C.nl_fsid(c.lib, c.handle, b, size))
	return C.GoString(b), err
}
