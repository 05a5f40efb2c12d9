package block

import (
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"unsafe"

	"golang.org/x/sys/unix"

	"github.com/nvmeof-go/nvmeof/backend"
)

// geometry is what the kernel reports about a device. Sizes are in bytes.
type geometry struct {
	size       int64
	logical    int  // the smallest transfer
	physical   int  // the unit that the device writes at once
	minimum    int  // preferred smallest transfer, such as a RAID's chunk; 0: unknown
	misaligned bool // physical blocks are not aligned with ours
	writeBack  bool // it has a volatile write cache, or may have
	canDiscard bool
	zoned      string // "none", "host-managed", ...; "": unknown
	isReadOnly bool
}

// measure queries an open device.
func measure(fd int) (*geometry, error) {
	size, err := sizeOf(fd)
	if err != nil {
		return nil, err
	}
	g := &geometry{size: size}
	for _, ask := range []struct {
		request uint
		name    string
		answer  *int
	}{
		{unix.BLKSSZGET, "BLKSSZGET", &g.logical},
		{unix.BLKPBSZGET, "BLKPBSZGET", &g.physical},
		{unix.BLKIOMIN, "BLKIOMIN", &g.minimum},
	} {
		n, err := unix.IoctlGetUint32(fd, ask.request)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", ask.name, err)
		}
		*ask.answer = int(n)
	}
	if offset, err := unix.IoctlGetUint32(fd, unix.BLKALIGNOFF); err == nil {
		g.misaligned = offset != 0
	}
	if ro, err := unix.IoctlGetUint32(fd, unix.BLKROGET); err == nil {
		g.isReadOnly = ro != 0
	}
	var st unix.Stat_t
	if err := unix.Fstat(fd, &st); err != nil {
		return nil, err
	}
	g.readQueue(sysfsOf(st.Rdev))
	return g, nil
}

// sysfsOf returns a device's directory in sysfs(5).
func sysfsOf(dev uint64) string {
	return fmt.Sprintf("/sys/dev/block/%d:%d", unix.Major(dev), unix.Minor(dev))
}

// readQueue adds what only sysfs(5) reports. A partition uses its disk's queue directory.
func (g *geometry) readQueue(dir string) {
	read := func(name string) string {
		for _, base := range []string{dir, dir + "/.."} {
			if text, err := os.ReadFile(filepath.Join(base, "queue", name)); err == nil {
				return strings.TrimSpace(string(text))
			}
		}
		return ""
	}
	g.writeBack = read("write_cache") != "write through"
	g.canDiscard = number(read("discard_max_bytes")) > 0
	g.zoned = read("zoned")
}

func number(s string) uint64 {
	n, _ := strconv.ParseUint(s, 10, 64)
	return n
}

// info returns the Info that is served.
func (g *geometry) info(cfg *Config) (backend.Info, error) {
	block, align := cfg.BlockSize, g.logical
	if block == 0 {
		block = g.logical
	}
	if cfg.Buffered {
		align = 1
	}
	switch {
	case block != 512 && block != 4096:
		return backend.Info{}, fmt.Errorf("the device has logical blocks of %d bytes: only 512 and 4096 are supported", block)
	case block < align:
		return backend.Info{}, fmt.Errorf("block size %d: the device has logical blocks of %d bytes: use bs=%d, or buffered", block, align, align)
	case g.size < int64(block):
		return backend.Info{}, fmt.Errorf("device has %d bytes, less than one block of %d", g.size, block)
	case strings.HasPrefix(g.zoned, "host-managed"):
		return backend.Info{}, fmt.Errorf("the device is zoned (%s), which is not supported", g.zoned)
	case g.isReadOnly && !cfg.ReadOnly:
		return backend.Info{}, fmt.Errorf("the device is read-only: export it read-only (ro), or allow writing (blockdev --setrw)")
	}
	info := backend.Info{
		Size:       g.size &^ int64(block-1),
		BlockSize:  block,
		Alignment:  align,
		Optimal:    max(g.minimum, g.physical, block) &^ (block - 1),
		Volatile:   !cfg.ReadOnly && (g.writeBack || cfg.Buffered),
		ReadOnly:   cfg.ReadOnly,
		Deallocate: !cfg.ReadOnly && g.canDiscard,
		Compare:    !cfg.ReadOnly,
	}
	whole := g.physical
	if g.misaligned {
		whole = g.logical
	}
	if whole < block {
		info.AtomicUnit = whole
	}
	return info, nil
}

// isReadOnly reports whether a device is read-only, as far as can be known without opening it.
func isReadOnly(path string) bool {
	var st unix.Stat_t
	if unix.Stat(path, &st) != nil {
		return false
	}
	text, err := os.ReadFile(sysfsOf(st.Rdev) + "/ro")
	return err == nil && strings.TrimSpace(string(text)) == "1"
}

func ioctlUint64(fd int, request uint) (uint64, error) {
	var n uint64
	_, _, errno := unix.Syscall(unix.SYS_IOCTL, uintptr(fd), uintptr(request), uintptr(unsafe.Pointer(&n)))
	if errno != 0 {
		return 0, errno
	}
	return n, nil
}
