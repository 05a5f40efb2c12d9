package main

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"io"
	"net"
	"sync/atomic"
	"testing"
)

// An nbdClient reads and writes an export, one request at a time.
type nbdClient struct {
	c    net.Conn
	size int64
}

// dialNBD opens an export by NBD_OPT_EXPORT_NAME (the NBD project's doc/proto.md).
func dialNBD(t *testing.T, socket, export string) *nbdClient {
	t.Helper()
	c, err := net.Dial("unix", socket)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close() })
	var greeting [18]byte
	if _, err := io.ReadFull(c, greeting[:]); err != nil || string(greeting[:8]) != "NBDMAGIC" {
		t.Fatalf("greeting %q, %v", greeting, err)
	}
	ask := []byte{0, 0, 0, 3} // fixed newstyle, no zeroes
	ask = append(ask, "IHAVEOPT\x00\x00\x00\x01"...)
	ask = append(binary.BigEndian.AppendUint32(ask, uint32(len(export))), export...)
	if _, err := c.Write(ask); err != nil {
		t.Fatal(err)
	}
	var answer [10]byte
	if _, err := io.ReadFull(c, answer[:]); err != nil {
		t.Fatalf("export %s: %v", export, err)
	}
	return &nbdClient{c, int64(binary.BigEndian.Uint64(answer[:]))}
}

// Commands.
const (
	nbdRead  = 0
	nbdWrite = 1
	nbdFlush = 3
)

// do is one request; a read fills data.
func (n *nbdClient) do(command uint16, off int64, data []byte) error {
	b := binary.BigEndian.AppendUint32(nil, 0x25609513)
	b = binary.BigEndian.AppendUint16(b, 0)
	b = binary.BigEndian.AppendUint16(b, command)
	b = binary.BigEndian.AppendUint64(b, 7)
	b = binary.BigEndian.AppendUint64(b, uint64(off))
	b = binary.BigEndian.AppendUint32(b, uint32(len(data)))
	if command == nbdWrite {
		b = append(b, data...)
	}
	if _, err := n.c.Write(b); err != nil {
		return err
	}
	var reply [16]byte
	if _, err := io.ReadFull(n.c, reply[:]); err != nil {
		return err
	}
	if magic, errno := binary.BigEndian.Uint32(reply[:]), binary.BigEndian.Uint32(reply[4:]); magic != 0x67446698 || errno != 0 {
		return fmt.Errorf("reply %#x, errno %d", magic, errno)
	}
	if command == nbdRead {
		_, err := io.ReadFull(n.c, data)
		return err
	}
	return nil
}

// A nbdLoad writes blocks of 4 KiB, another content each time, and reads them again.
type nbdLoad struct {
	rounds atomic.Int64 // that were right
	stop   atomic.Bool
	ended  chan error
}

func startLoad(n *nbdClient) *nbdLoad {
	l := &nbdLoad{ended: make(chan error, 1)}
	go func() { l.ended <- l.run(n) }()
	return l
}

func (l *nbdLoad) run(n *nbdClient) error {
	const block, blocks = 4096, 64
	last := [blocks]byte{} // what each block is full of
	for i := 0; !l.stop.Load(); i++ {
		at := i * 37 % blocks
		last[at] = byte(i + 1)
		if err := n.do(nbdWrite, int64(at*block), bytes.Repeat(last[at:at+1], block)); err != nil {
			return fmt.Errorf("write %d: %w", i, err)
		}
		if i%16 == 0 {
			if err := n.do(nbdFlush, 0, nil); err != nil {
				return fmt.Errorf("flush %d: %w", i, err)
			}
		}
		at = i * 11 % blocks
		got := make([]byte, block)
		if err := n.do(nbdRead, int64(at*block), got); err != nil {
			return fmt.Errorf("read %d: %w", i, err)
		}
		if last[at] != 0 && !bytes.Equal(got, bytes.Repeat(last[at:at+1], block)) {
			return fmt.Errorf("read %d: block %d begins with %d, %d was written", i, at, got[0], last[at])
		}
		l.rounds.Add(1)
	}
	return nil
}
