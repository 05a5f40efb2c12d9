//go:build rbd && cgo && linux

package librados

/*
#include "shim.h"
#include <stdlib.h>
*/
import "C"

import (
	"bytes"
	"encoding/json"
	"fmt"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"
)

// Addresses returns the client's addresses as the cluster knows them, by which it can be blocklisted.
func (c *Client) Addresses() (string, error) {
	const size = 1024
	b := (*C.char)(C.calloc(1, size))
	defer C.free(unsafe.Pointer(b))
	err := check("addresses of the client", C.nl_addresses(c.lib, c.handle, b, size))
	return C.GoString(b), err
}

// Block makes the cluster refuse requests from an address for a time in whole seconds.
func (c *Client) Block(address string, most time.Duration) error {
	var t texts
	defer t.free()
	return check("blocklist "+address, C.nl_block(c.lib, c.handle, t.add(address), C.uint32_t(most/time.Second)))
}

// Unblock removes an address from the blocklist.
func (c *Client) Unblock(address string) error {
	_, err := c.command(map[string]string{"prefix": "osd blocklist", "blocklistop": "rm", "addr": address})
	return err
}

// A Block is an entry of the blocklist.
type Block struct {
	Address string `json:"addr"`
	Until   string `json:"until"` // in the local time of the monitor
}

// Blocks returns the entries of the blocklist.
func (c *Client) Blocks() ([]Block, error) {
	answer, err := c.command(map[string]string{"prefix": "osd blocklist ls", "format": "json"})
	if err != nil {
		return nil, err
	}
	var all []Block
	if err := json.NewDecoder(bytes.NewReader(answer)).Decode(&all); err != nil { // a list of ranges may follow
		return nil, fmt.Errorf("blocklist: %w", err)
	}
	return all, nil
}

// AwaitMap returns when the client has the newest map of the cluster. An OSD with an older map then executes none of
// its requests.
func (c *Client) AwaitMap() error {
	return check("newest map of the cluster", C.nl_await_map(c.lib, c.handle))
}

func (c *Client) command(parts map[string]string) ([]byte, error) {
	text, err := json.Marshal(parts)
	if err != nil {
		return nil, err
	}
	var t texts
	defer t.free()
	var answer, said *C.char
	var size, saidSize C.size_t
	code := C.nl_command(c.lib, c.handle, t.add(string(text)), &answer, &size, &said, &saidSize)
	defer C.free(unsafe.Pointer(answer))
	defer C.free(unsafe.Pointer(said))
	if code < 0 {
		return nil, fmt.Errorf("%s: %w: %s", parts["prefix"], unix.Errno(-code), C.GoStringN(said, C.int(saidSize)))
	}
	return C.GoBytes(unsafe.Pointer(answer), C.int(size)), nil
}
