//go:build rbd && cgo && linux

package librados

/*
#include "shim.h"
#include <stdlib.h>
*/
import "C"

import (
	"encoding/json"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"unsafe"

	"golang.org/x/sys/unix"
)

// allNamespaces is LIBRADOS_ALL_NSPACES.
const allNamespaces = "\x01"

// visits is the number of placement groups that are visited concurrently.
const visits = 16

// Epoch returns the epoch of the newest map of the monitors.
func (c *Client) Epoch() (uint64, error) {
	var stat struct {
		Epoch uint64 `json:"epoch"`
	}
	err := c.query(map[string]string{"prefix": "osd stat", "format": "json"}, &stat)
	if err == nil && stat.Epoch == 0 {
		err = errors.New("osd stat: the answer has no epoch")
	}
	return stat.Epoch, err
}

// PoolName returns the name of a pool.
func (c *Client) PoolName(id int64) (string, error) {
	const size = 256
	b := (*C.char)(C.calloc(1, size))
	defer C.free(unsafe.Pointer(b))
	err := check("name of a pool", C.nl_pool_name(c.lib, c.handle, C.int64_t(id), b, size))
	return C.GoString(b), err
}

// Visit returns when each placement group of a pool has executed an operation of this client. The group then has the
// client's map, and so has any OSD that takes over the group later. A client whose capabilities are limited to a
// namespace must name it.
func (c *Client) Visit(pool, namespace string) error {
	var of struct {
		Groups int `json:"pg_num"`
	}
	if err := c.query(map[string]string{"prefix": "osd pool get", "pool": pool, "var": "pg_num", "format": "json"}, &of); err != nil {
		return err
	}
	err := c.visit(pool, allNamespaces, of.Groups)
	if namespace != "" && errors.Is(err, unix.EPERM) {
		err = c.visit(pool, namespace, of.Groups)
	}
	return err
}

// visit queries each part of the pool. There are at least as many parts as groups, and their number is a power of two,
// so that no part covers two groups.
func (c *Client) visit(pool, namespace string, groups int) error {
	p, err := c.Pool(pool, namespace)
	if err != nil {
		return err
	}
	defer p.Close()
	parts := 1
	for parts < groups {
		parts *= 2
	}
	var next atomic.Int64
	var all sync.WaitGroup
	errs := make([]error, min(visits, parts))
	for i := range errs {
		all.Go(func() { // ends when the cluster has answered
			for errs[i] == nil {
				n := int(next.Add(1)) - 1
				if n >= parts {
					return
				}
				errs[i] = check(fmt.Sprintf("placement groups of pool %s", pool), C.nl_visit(p.handle, C.size_t(n), C.size_t(parts)))
			}
		})
	}
	all.Wait()
	return errors.Join(errs...)
}

// query makes the monitors answer a command in JSON.
func (c *Client) query(command map[string]string, to any) error {
	answer, err := c.command(command)
	if err != nil {
		return err
	}
	if err := json.Unmarshal(answer, to); err != nil {
		return fmt.Errorf("%s: %w", command["prefix"], err)
	}
	return nil
}
