//go:build rbd && cgo && linux

package rbd

// #include "shim.h"
import "C"

import (
	"errors"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"

	"github.com/nvmeof-go/nvmeof/internal/librados"
)

// A libraryClient implements connection. Images that share it also share its starter.
type libraryClient struct {
	*librados.Client
	starter *starter
}

func dialClient(cfg ClientConfig) (connection, error) {
	c, err := connect(cfg.Conf, cfg.ID)
	if err != nil {
		return nil, err
	}
	return c, nil
}

// connect connects a client for images.
func connect(conf, id string) (c libraryClient, err error) {
	c.Client, err = librados.Connect(librados.Config{Conf: conf, ID: id, Settings: settings})
	var missing librados.MissingError
	if errors.As(err, &missing) {
		return c, &LibraryError{Detail: string(missing)}
	}
	if err != nil {
		return c, err
	}
	c.starter = (*starter)(unsafe.Pointer(C.nr_starter_open()))
	if c.starter == nil {
		c.Client.Close()
		return c, librados.Explain("start a thread", unix.EAGAIN)
	}
	return c, nil
}

// Close ends the client. Its images must be closed.
func (c libraryClient) Close() {
	C.nr_starter_close((*C.struct_nr_starter)(unsafe.Pointer(c.starter)))
	c.Client.Close()
}

func (c libraryClient) visit(pool, namespace string) error { return c.Visit(pool, namespace) }

func (c libraryClient) holds(pool, namespace string, most time.Duration) (bool, error) {
	return c.Holds(pool, namespace, most)
}

func (c libraryClient) blocks() (map[string]string, error) {
	all, err := c.Blocks()
	if err != nil {
		return nil, err
	}
	blocks := make(map[string]string)
	for _, b := range all {
		blocks[b.Address] = b.Until
	}
	return blocks, nil
}
