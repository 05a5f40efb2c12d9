package main

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
	"testing"
)

// An nbdClient is a client of an export. Its methods must be called from one goroutine.
type nbdClient struct {
	c        net.Conn
	size     int64
	readOnly bool
}

// dialNBD opens an export by NBD_OPT_EXPORT_NAME (the NBD project's doc/proto.md).
func dialNBD(t *testing.T, socket, export string) *nbdClient {
	t.Helper()
	n, err := tryNBD(socket, export)
	if err != nil {
		t.Fatalf("export %s: %v", export, err)
	}
	t.Cleanup(func() { n.c.Close() })
	return n
}

// offered reports whether there is such an export.
func offered(t *testing.T, socket, export string) bool {
	t.Helper()
	n, err := tryNBD(socket, export)
	if err == nil {
		n.c.Close()
	} else if !errors.Is(err, io.EOF) { // how the protocol rejects it
		t.Fatal(err)
	}
	return err == nil
}

func tryNBD(socket, export string) (n *nbdClient, err error) {
	c, err := net.Dial("unix", socket)
	if err != nil {
		return nil, err
	}
	defer func() {
		if err != nil {
			c.Close()
		}
	}()
	var greeting [18]byte
	if _, err := io.ReadFull(c, greeting[:]); err != nil || string(greeting[:8]) != "NBDMAGIC" {
		return nil, fmt.Errorf("greeting %q, %w", greeting, err)
	}
	ask := []byte{0, 0, 0, 3} // fixed newstyle, no zeroes
	ask = append(ask, "IHAVEOPT\x00\x00\x00\x01"...)
	ask = append(binary.BigEndian.AppendUint32(ask, uint32(len(export))), export...)
	if _, err := c.Write(ask); err != nil {
		return nil, err
	}
	var answer [10]byte
	if _, err := io.ReadFull(c, answer[:]); err != nil {
		return nil, err
	}
	return &nbdClient{c, int64(binary.BigEndian.Uint64(answer[:])), answer[9]&2 != 0}, nil
}

// Commands.
const (
	nbdRead  = 0
	nbdWrite = 1
	nbdFlush = 3
	nbdTrim  = 4
)

// Errors, with the protocol's numbers.
const (
	nbdEPERM  nbdErrno = 1
	nbdEIO    nbdErrno = 5
	nbdENOSPC nbdErrno = 28
)

type nbdErrno uint32

func (e nbdErrno) Error() string { return fmt.Sprintf("errno %d", uint32(e)) }

// An nbdRequest is one of several concurrent requests.
type nbdRequest struct {
	command uint16
	off     int64
	length  uint32 // if there is no data
	data    []byte // filled by a read
}

// do executes one request; a read fills data.
func (n *nbdClient) do(command uint16, off int64, data []byte) error {
	return n.all([]nbdRequest{{command: command, off: off, data: data}})
}

// all sends requests together, and receives the replies in any order. It returns the first error.
func (n *nbdClient) all(rs []nbdRequest) error {
	var b []byte
	for i := range rs {
		b = rs[i].append(b, uint64(i))
	}
	if _, err := n.c.Write(b); err != nil {
		return err
	}
	var first error
	for range rs {
		i, err := n.answer(rs)
		if i < 0 {
			return err
		}
		if err != nil && first == nil {
			first = fmt.Errorf("command %d at %d: %w", rs[i].command, rs[i].off, err)
		}
	}
	return first
}

func (r *nbdRequest) append(b []byte, cookie uint64) []byte {
	b = binary.BigEndian.AppendUint32(b, 0x25609513)
	b = binary.BigEndian.AppendUint16(b, 0)
	b = binary.BigEndian.AppendUint16(b, r.command)
	b = binary.BigEndian.AppendUint64(b, cookie)
	b = binary.BigEndian.AppendUint64(b, uint64(r.off))
	b = binary.BigEndian.AppendUint32(b, max(r.length, uint32(len(r.data))))
	if r.command == nbdWrite {
		b = append(b, r.data...)
	}
	return b
}

// answer receives one reply, and returns the index of its request, or -1 if the connection cannot be used any more.
func (n *nbdClient) answer(rs []nbdRequest) (int, error) {
	var reply [16]byte
	if _, err := io.ReadFull(n.c, reply[:]); err != nil {
		return -1, err
	}
	magic, errno, cookie := binary.BigEndian.Uint32(reply[:]), nbdErrno(binary.BigEndian.Uint32(reply[4:])), binary.BigEndian.Uint64(reply[8:])
	if magic != 0x67446698 || cookie >= uint64(len(rs)) {
		return -1, fmt.Errorf("reply %#x to request %d", magic, cookie)
	}
	i := int(cookie)
	if errno != 0 {
		return i, errno
	}
	if rs[i].command == nbdRead {
		if _, err := io.ReadFull(n.c, rs[i].data); err != nil {
			return -1, err
		}
	}
	return i, nil
}
