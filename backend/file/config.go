package file

import (
	"errors"
	"fmt"
	"os"

	"github.com/nvmeof-go/nvmeof/backend/internal/disk"
)

// Engine selects how a store does its I/O.
type Engine = disk.Engine

// Options are the part of the configuration that files and block devices share.
type Options = disk.Options

// Workers limit the blocking calls that stores, of this package and of package block, have in the kernel together. Each
// store may have one beyond the limit.
type Workers = disk.Workers

// NewWorkers returns workers for all stores of a process. The limit leaves as many threads to the rest of the process:
// it is half of what the Go runtime, the control group and the user's limit on processes allow.
func NewWorkers() *Workers { return disk.NewWorkers(disk.ThreadLimit(os.DirFS("/"))) }

// ParseEngine is the inverse of [Engine]'s String.
func ParseEngine(s string) (Engine, error) { return disk.ParseEngine(s) }

const (
	EngineAuto    = disk.EngineAuto
	EngineURing   = disk.EngineURing
	EngineThreads = disk.EngineThreads
)

// Config configures how a file is stored and served. A zero field selects the default.
type Config struct {
	// Size is the size in bytes. A missing file is created and a smaller one is extended. A larger file keeps its size,
	// since it may have been extended while it was served. 0: the file must exist and keeps its size. The served size
	// is rounded down to whole blocks.
	Size int64

	// BlockSize is 512 or 4096. The default is 4096 if the size is a multiple of that or the drive needs it, otherwise
	// 512.
	BlockSize int

	ReadOnly bool
	Buffered bool // through the page cache, without alignment requirements
	Thin     bool // no preallocation, and deallocated storage is freed: writes may fail with backend.ErrNoSpace

	// Force opens a file that is used by QEMU, a loop device, swap, a mount or a target of the kernel. Another program
	// that writes to it then destroys what hosts store, and hosts destroy what it stores. A file that another store has
	// open is refused nevertheless.
	Force bool

	Engine  Engine
	Threads int // maximum goroutines per queue under EngineThreads; default 16

	// LockedThreads promises that each queue is used from one goroutine that is locked to its OS thread, from the first
	// Submit to Close.
	LockedThreads bool

	// Workers limit the blocking calls of all stores that have them, each of which occupies a thread. Nil: no limit.
	Workers *Workers
}

func (c *Config) options() disk.Options {
	return disk.Options{Engine: c.Engine, Threads: c.Threads, LockedThreads: c.LockedThreads, Workers: c.Workers}
}

// check validates what can be validated without the file.
func (c *Config) check() error {
	switch {
	case c.Size < 0:
		return fmt.Errorf("size %d is negative", c.Size)
	case c.BlockSize != 0 && c.BlockSize != 512 && c.BlockSize != 4096:
		return fmt.Errorf("block size %d: must be 512 or 4096", c.BlockSize)
	case c.ReadOnly && c.Size > 0:
		return errors.New("a size cannot be given for a file that is opened read-only")
	}
	_, err := c.options().Check()
	return err
}
