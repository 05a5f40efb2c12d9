package memory

import (
	"bytes"
	"crypto/rand"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"os"
	"sync/atomic"
	"unsafe"

	"golang.org/x/sys/unix"
)

// A movable store has a file of memory (memfd_create(2)) in place of a mapping that ends with its
// process:
//
//	memory   whole pages
//	words    of pages, which say what is in use; whole pages
//	header   one page
//
// All that another process needs is there at any time. What guards the blocks is not: it belongs to
// operations, which end with their process.

// headerSize is that of the header's fields, which are little-endian: a name with the version of the
// format, the size, the block size and the mark.
const headerSize = len(headerName) + 8 + 8 + 16

const headerName = "nvmeof memory 1\n"

// seals keep everybody from making the file another size: who had it mapped would be ended by SIGBUS.
const seals = unix.F_SEAL_SHRINK | unix.F_SEAL_GROW | unix.F_SEAL_SEAL

// create makes the file of a store and maps it.
func (s *Store) create() error {
	fd, err := unix.MemfdCreate("nvmeof-memory", unix.MFD_CLOEXEC|unix.MFD_ALLOW_SEALING)
	if err != nil {
		return fmt.Errorf("memory store: memfd_create: %w", err)
	}
	s.file = os.NewFile(uintptr(fd), "nvmeof-memory")
	_, _ = rand.Read(s.mark[:]) // it never fails
	err = unix.Ftruncate(fd, s.fileSize())
	if err == nil {
		_, err = unix.FcntlInt(uintptr(fd), unix.F_ADD_SEALS, seals)
	}
	if err == nil {
		_, err = s.file.WriteAt(s.header(), s.fileSize()-int64(os.Getpagesize()))
	}
	if err == nil {
		err = s.mapFile()
	}
	if err != nil {
		return errors.Join(fmt.Errorf("memory store: %d bytes: %w", s.info.Size, err), s.file.Close())
	}
	return nil
}

// Open returns the store of a file that [Store.File] has returned in another process, which has
// ended, or ended its queues. The file stays the caller's. Of the configuration only Pinned counts.
func Open(f *os.File, cfg Config) (*Store, error) {
	if got, err := unix.FcntlInt(f.Fd(), unix.F_GET_SEALS, 0); err != nil || got&seals != seals {
		return nil, errors.New("memory store: the file is not one of a movable memory store")
	}
	info, err := f.Stat()
	if err != nil {
		return nil, fmt.Errorf("memory store: %w", err)
	}
	header := make([]byte, headerSize)
	if _, err := f.ReadAt(header, info.Size()-int64(os.Getpagesize())); err != nil && !errors.Is(err, io.EOF) {
		return nil, fmt.Errorf("memory store: %w", err)
	}
	fields, known := bytes.CutPrefix(header, []byte(headerName))
	if !known {
		return nil, errors.New("memory store: the file has another format")
	}
	cfg.Size, cfg.BlockSize = int64(binary.LittleEndian.Uint64(fields)), int(binary.LittleEndian.Uint64(fields[8:]))
	s, err := prepare(cfg)
	if err != nil {
		return nil, err
	}
	if info.Size() != s.fileSize() || cfg.Size != s.info.Size {
		return nil, fmt.Errorf("memory store: the file of a store of %d bytes has %d", cfg.Size, info.Size())
	}
	copy(s.mark[:], fields[16:])
	fd, err := unix.FcntlInt(f.Fd(), unix.F_DUPFD_CLOEXEC, 0)
	if err != nil {
		return nil, fmt.Errorf("memory store: %w", err)
	}
	s.file = os.NewFile(uintptr(fd), "nvmeof-memory")
	if err := s.mapFile(); err != nil {
		return nil, errors.Join(fmt.Errorf("memory store: map %d bytes: %w", s.info.Size, err), s.file.Close())
	}
	s.used.recount()
	s.finish()
	return s, nil
}

// File is the memory of a movable store, for [Open] in another process; nil: the store is not
// movable. It is the store's, and valid until that is closed. The other process must not change what
// is in it before the queues of this one are closed.
func (s *Store) File() *os.File { return s.file }

func (s *Store) header() []byte {
	b := append(make([]byte, 0, headerSize), headerName...)
	b = binary.LittleEndian.AppendUint64(b, uint64(s.info.Size))
	b = binary.LittleEndian.AppendUint64(b, uint64(s.info.BlockSize))
	return append(b, s.mark[:]...)
}

// wordBytes is what the words of pages take in the file.
func (s *Store) wordBytes() int64 { return wholePages(int64(wordsOf(s.info.Size)) * 8) }

func (s *Store) fileSize() int64 {
	return wholePages(s.info.Size) + s.wordBytes() + int64(os.Getpagesize())
}

// mapFile maps the file, and beside it memory for what guards the blocks.
func (s *Store) mapFile() error {
	mapped, err := unix.Mmap(int(s.file.Fd()), 0, int(s.fileSize()), unix.PROT_READ|unix.PROT_WRITE, unix.MAP_SHARED|unix.MAP_NORESERVE)
	if err != nil {
		return err
	}
	if s.guards, err = anonymous(s.guardBytes()); err != nil {
		return errors.Join(err, unix.Munmap(mapped))
	}
	whole := wholePages(s.info.Size)
	s.mapped, s.memory = mapped, mapped[:whole:whole]
	s.used = pages{words: unsafe.Slice((*atomic.Uint64)(unsafe.Pointer(&mapped[whole])), wordsOf(s.info.Size))}
	return nil
}
