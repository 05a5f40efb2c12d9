package disk

import (
	"os"
	"path/filepath"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/nvmeof-go/nvmeof/backend"
)

// These are the kinds of regular files of package file: one that keeps its storage, one
// that has holes, and one that is to have them.
var (
	thick  = Config{Info: backend.Info{Size: 32 << 20}}
	sparse = Config{Info: backend.Info{Size: 32 << 20, Deallocate: true}}
	thin   = Config{Info: backend.Info{Size: 32 << 20, Deallocate: true}, PunchZeroes: true}
)

// openDisk makes a disk of a new sparse file of Info.Size, through the page cache.
func openDisk(t testing.TB, cfg Config) *Disk {
	t.Helper()
	f, err := os.Create(filepath.Join(t.TempDir(), "namespace.img"))
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	if err := f.Truncate(cfg.Info.Size); err != nil {
		t.Fatal(err)
	}
	d, err := attach(f.Name(), cfg)
	if err != nil {
		t.Fatal(err)
	}
	return d
}

// attach opens a file that exists.
func attach(path string, cfg Config) (*Disk, error) {
	fd, err := unix.Open(path, unix.O_RDWR|unix.O_CLOEXEC, 0)
	if err != nil {
		return nil, err
	}
	cfg.Name, cfg.FD = path, fd
	if cfg.Info.BlockSize == 0 {
		cfg.Info.BlockSize = 4096
	}
	cfg.Release = func() error { return unix.Close(fd) }
	if cfg.Measure == nil {
		cfg.Measure = func() (int64, error) {
			var st unix.Stat_t
			err := unix.Fstat(fd, &st)
			return st.Size, err
		}
	}
	return New(cfg)
}
