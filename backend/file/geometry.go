package file

import (
	"fmt"
	"os"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/nvmeof-go/nvmeof/backend"
	"github.com/nvmeof-go/nvmeof/backend/internal/disk"
)

// alignment is what I/O requires, in bytes: of buffers, and of offsets and lengths.
type alignment struct{ memory, offset int }

// setDirect enables direct I/O, unless it is disabled by the configuration or not possible.
func (s *Store) setDirect() alignment {
	if s.cfg.Buffered {
		return alignment{1, 1}
	}
	buffered := func(why string) alignment {
		s.note("I/O goes through the page cache: " + why)
		return alignment{1, 1}
	}
	var st unix.Statx_t
	if unix.Statx(s.fd, "", unix.AT_EMPTY_PATH, unix.STATX_DIOALIGN, &st) != nil {
		st.Mask = 0
	}
	align, ok := directAlignment(&st)
	if !ok {
		return buffered("the file cannot do direct I/O in units of 4096 bytes")
	}
	flags, err := unix.FcntlInt(uintptr(s.fd), unix.F_GETFL, 0)
	if err != nil {
		return buffered(err.Error())
	}
	if _, err := unix.FcntlInt(uintptr(s.fd), unix.F_SETFL, flags|unix.O_DIRECT); err != nil {
		return buffered("the file system refuses direct I/O")
	}
	if align.offset == 0 {
		align = probeAlignment(s.fd)
	}
	s.direct = true
	disk.ForgetCached(s.fd)
	return align
}

// directAlignment returns what statx(2) reports: ok is false if direct I/O is impossible, and align is zero if the
// kernel does not know (kernels before 6.1, and some file systems).
func directAlignment(st *unix.Statx_t) (align alignment, ok bool) {
	if st.Mask&unix.STATX_DIOALIGN == 0 {
		return alignment{}, true
	}
	align = alignment{int(st.Dio_mem_align), int(st.Dio_offset_align)}
	for _, n := range []int{align.memory, align.offset} {
		if n < 1 || n > 4096 || n&(n-1) != 0 {
			return alignment{}, false
		}
	}
	return align, true
}

// probeAlignment tries to read one sector of 512 bytes.
func probeAlignment(fd int) alignment {
	page, err := unix.Mmap(-1, 0, 4096, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_PRIVATE|unix.MAP_ANONYMOUS)
	if err != nil {
		return alignment{4096, 4096}
	}
	defer unix.Munmap(page)
	if _, err := unix.Pread(fd, page[512:1024], 512); err != nil {
		return alignment{4096, 4096}
	}
	return alignment{512, 512}
}

// info chooses the block size.
func (s *Store) info(align alignment) (backend.Info, error) {
	var st unix.Stat_t
	if err := unix.Fstat(s.fd, &st); err != nil {
		return backend.Info{}, err
	}
	block := s.cfg.BlockSize
	switch {
	case block == 0:
		block = defaultBlock(st.Size, align)
	case block < align.offset:
		return backend.Info{}, fmt.Errorf("block size %d: direct I/O needs %d here; use that, or buffered I/O", block, align.offset)
	}
	if st.Size < int64(block) {
		return backend.Info{}, fmt.Errorf("file has %d bytes, less than one block of %d", st.Size, block)
	}
	info := backend.Info{
		Size:       st.Size,
		BlockSize:  block,
		Alignment:  align.memory,
		Optimal:    max(int(st.Blksize), block),
		Volatile:   !s.cfg.ReadOnly,
		ReadOnly:   s.cfg.ReadOnly,
		Deallocate: !s.cfg.ReadOnly && (s.cfg.Thin || sparse(&st)),
		Compare:    !s.cfg.ReadOnly,
		Copy:       !s.cfg.ReadOnly && disk.SharesBlocks(s.fd),
	}
	if sector := sectorSize(st.Dev, align); sector < block {
		info.AtomicUnit = sector
	}
	return info, nil
}

func defaultBlock(size int64, align alignment) int {
	if size%4096 == 0 || align.offset > 512 {
		return 4096
	}
	return 512
}

// sparse reports whether the file has less storage than its size, so that writes may run out of space. A fully
// allocated file keeps its storage, unless it is to be thin.
func sparse(st *unix.Stat_t) bool { return st.Blocks*512 < st.Size }

// sectorSize returns the unit that the drive below writes at once, as far as it can be known. File systems that are not
// on a single drive do not report one, and are trusted.
func sectorSize(dev uint64, align alignment) int {
	base := fmt.Sprintf("/sys/dev/block/%d:%d", unix.Major(dev), unix.Minor(dev))
	for _, dir := range []string{base, base + "/.."} { // a drive, a partition
		text, err := os.ReadFile(dir + "/queue/physical_block_size")
		if err != nil {
			continue
		}
		if n, err := strconv.Atoi(strings.TrimSpace(string(text))); err == nil && n > 0 {
			return n
		}
	}
	if align.offset > 1 {
		return align.offset
	}
	return 4096
}
