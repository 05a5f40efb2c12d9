package client

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
	"strconv"
	"time"
)

// An nbdDisk is a connection to an NBD export (the NBD project's doc/proto.md).
type nbdDisk struct{ conn net.Conn }

// Commands and a command flag.
const (
	nbdRead    = 0
	nbdWrite   = 1
	nbdFlush   = 3
	nbdFlagFUA = 1
)

// errConnection means that the connection ended: requests in progress may or may not have been executed.
var errConnection = errors.New("the connection to attach ended")

// openNBD opens an export with NBD_OPT_EXPORT_NAME.
func openNBD(socket string, nsid uint32, size int64) (*nbdDisk, error) {
	c, err := net.Dial("unix", socket)
	if err != nil {
		return nil, err
	}
	fail := func(err error) (*nbdDisk, error) {
		return nil, errors.Join(err, c.Close())
	}
	_ = c.SetDeadline(time.Now().Add(time.Minute))
	var greeting [18]byte
	if _, err := io.ReadFull(c, greeting[:]); err != nil {
		return fail(err)
	}
	if string(greeting[:16]) != "NBDMAGICIHAVEOPT" {
		return fail(fmt.Errorf("greeting %q", greeting))
	}
	name := strconv.Itoa(int(nsid))
	ask := append([]byte{0, 0, 0, 3}, "IHAVEOPT\x00\x00\x00\x01"...) // fixed newstyle, no zeroes
	ask = append(binary.BigEndian.AppendUint32(ask, uint32(len(name))), name...)
	if _, err := c.Write(ask); err != nil {
		return fail(err)
	}
	var answer [10]byte
	if _, err := io.ReadFull(c, answer[:]); err != nil {
		return fail(fmt.Errorf("export %s: %w", name, err))
	}
	if n := int64(binary.BigEndian.Uint64(answer[:])); n != size {
		return fail(fmt.Errorf("export %s has %d bytes, want %d", name, n, size))
	}
	_ = c.SetDeadline(time.Time{})
	return &nbdDisk{c}, nil
}

func (n *nbdDisk) close() error { return n.conn.Close() }

func (n *nbdDisk) do(ops []request) {
	began := time.Now()
	var b []byte
	for i := range ops {
		b = ops[i].appendNBD(b, uint64(i))
	}
	_, err := n.conn.Write(b)
	for i := range ops {
		ops[i].err = errConnection
	}
	for left := len(ops); left > 0 && err == nil; left-- {
		err = n.answer(ops, began)
	}
}

func (r *request) appendNBD(b []byte, cookie uint64) []byte {
	command, flags := uint16(nbdRead), uint16(0)
	switch r.kind {
	case write:
		command = nbdWrite
		if r.fua {
			flags = nbdFlagFUA
		}
	case flush:
		command = nbdFlush
	}
	b = binary.BigEndian.AppendUint32(b, 0x25609513)
	b = binary.BigEndian.AppendUint16(b, flags)
	b = binary.BigEndian.AppendUint16(b, command)
	b = binary.BigEndian.AppendUint64(b, cookie)
	b = binary.BigEndian.AppendUint64(b, uint64(r.offset))
	b = binary.BigEndian.AppendUint32(b, uint32(len(r.data)))
	if r.kind == write {
		b = append(b, r.data...)
	}
	return b
}

// answer reads one reply. An error is one of the connection.
func (n *nbdDisk) answer(ops []request, began time.Time) error {
	var reply [16]byte
	if _, err := io.ReadFull(n.conn, reply[:]); err != nil {
		return err
	}
	i := binary.BigEndian.Uint64(reply[8:])
	if binary.BigEndian.Uint32(reply[:]) != 0x67446698 || i >= uint64(len(ops)) {
		return fmt.Errorf("reply % x", reply)
	}
	r := &ops[i]
	if errno := binary.BigEndian.Uint32(reply[4:]); errno != 0 {
		r.err = fmt.Errorf("NBD errno %d", errno)
		return nil
	}
	if r.kind == read {
		if _, err := io.ReadFull(n.conn, r.data); err != nil {
			return err
		}
	}
	r.err, r.took = nil, time.Since(began)
	return nil
}
