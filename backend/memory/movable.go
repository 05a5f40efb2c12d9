package memory

import (
	"bytes"
	"crypto/rand"
	"encoding/binary"
	"errors"
	"fmt"
	"os"
	"sync/atomic"
	"unsafe"

	"golang.org/x/sys/unix"
)

// A layout is the layout of a movable store in the file of its pool:
//
//	header   one page, at offset
//	words    of pages, which say what is in use; whole pages
//	memory   whole pages, up to end
//
// The file always holds everything that another process needs. The words that guard the blocks are not in it: they
// belong to operations, which end with their process.
type layout struct {
	offset, words, memory, end int64
}

// headerSize is the size of the header's fields, which are little-endian: a name with the version of the format, the
// offset of the header itself, the size, the block size and the mark.
const headerSize = len(headerName) + 8 + 8 + 8 + 16

const headerName = "nvmeof memory 2\n"

// layout returns the layout of the store in free space that begins at first. Memory that can have huge pages begins at
// a huge page boundary.
func (s *Store) layout(first int64) layout {
	page := int64(os.Getpagesize())
	words := wholePages(int64(wordsOf(s.info.Size)) * 8)
	memory := first + page + words
	if s.info.Size >= region {
		memory = (memory + region - 1) &^ (region - 1)
	}
	return layout{memory - words - page, memory - words, memory, memory + wholePages(s.info.Size)}
}

// create allocates a range of the pool for a store and maps it.
func (s *Store) create() error {
	_, _ = rand.Read(s.mark[:]) // it never fails
	err := s.pool.place(s)
	if err == nil {
		if err = s.writeHeader(); err == nil {
			err = s.mapFile()
		}
		if err != nil {
			err = errors.Join(err, s.pool.giveBack(s.at))
		}
	}
	if err != nil {
		return fmt.Errorf("memory store: %d bytes: %w", s.info.Size, err)
	}
	return nil
}

// Open returns the store at an offset that another process created. That process must have ended, or have closed the
// store's queues.
func (p *Pool) Open(offset int64) (*Store, error) {
	f, end := p.File()
	if f == nil || offset < 0 || offset >= end || offset != wholePages(offset) {
		return nil, fmt.Errorf("memory store: no store at offset %d of %d bytes", offset, end)
	}
	header := make([]byte, headerSize)
	if _, err := f.ReadAt(header, offset); err != nil {
		return nil, fmt.Errorf("memory store: %w", err)
	}
	fields, known := bytes.CutPrefix(header, []byte(headerName))
	if !known || int64(binary.LittleEndian.Uint64(fields)) != offset {
		return nil, fmt.Errorf("memory store: the data at offset %d is not a memory store or has another format", offset)
	}
	cfg := Config{Size: int64(binary.LittleEndian.Uint64(fields[8:])), BlockSize: int(binary.LittleEndian.Uint64(fields[16:])), Pool: p}
	s, err := prepare(cfg)
	if err != nil {
		return nil, err
	}
	// The header must be where layout would put it.
	if s.at = s.layout(offset); s.at.offset != offset || s.at.end > end || s.at.end < offset || cfg.Size != s.info.Size {
		return nil, fmt.Errorf("memory store: a store of %d bytes at offset %d does not fit into the %d bytes in use", cfg.Size, offset, end)
	}
	copy(s.mark[:], fields[24:])
	if err := s.mapFile(); err != nil {
		return nil, fmt.Errorf("memory store: map %d bytes: %w", s.info.Size, err)
	}
	s.used.recount()
	s.finish()
	return s, nil
}

// Offset returns the offset of the store in its pool, or -1 if it has no pool.
func (s *Store) Offset() int64 {
	if s.pool == nil {
		return -1
	}
	return s.at.offset
}

func (s *Store) writeHeader() error {
	b := append(make([]byte, 0, headerSize), headerName...)
	for _, n := range []uint64{uint64(s.at.offset), uint64(s.info.Size), uint64(s.info.BlockSize)} {
		b = binary.LittleEndian.AppendUint64(b, n)
	}
	f, _ := s.pool.File()
	_, err := f.WriteAt(append(b, s.mark[:]...), s.at.offset)
	return err
}

// mapFile maps the store's part of the file, and anonymous memory for the words that guard the blocks.
func (s *Store) mapFile() error {
	f, _ := s.pool.File()
	mapped, err := unix.Mmap(int(f.Fd()), s.at.words, int(s.at.end-s.at.words), unix.PROT_READ|unix.PROT_WRITE, unix.MAP_SHARED|unix.MAP_NORESERVE)
	if err != nil {
		return err
	}
	if s.guards, err = anonymous(s.guardBytes()); err != nil {
		return errors.Join(err, unix.Munmap(mapped))
	}
	s.mapped, s.memory = mapped, mapped[s.at.memory-s.at.words:]
	s.used = pages{words: unsafe.Slice((*atomic.Uint64)(unsafe.Pointer(&mapped[0])), wordsOf(s.info.Size))}
	return nil
}
