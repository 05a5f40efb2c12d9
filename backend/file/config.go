package file

import (
	"errors"
	"fmt"

	"github.com/nvmeof-go/nvmeof/backend/internal/disk"
)

// Engine is how a store does its I/O.
type Engine = disk.Engine

// Options are the part of a configuration that files and block devices share.
type Options = disk.Options

// ParseEngine is the reverse of [Engine]'s String.
func ParseEngine(s string) (Engine, error) { return disk.ParseEngine(s) }

const (
	EngineAuto    = disk.EngineAuto
	EngineURing   = disk.EngineURing
	EngineThreads = disk.EngineThreads
)

// Config says how a file is stored and served. A zero field takes the default.
type Config struct {
	// Size in bytes: a missing file is created, a smaller one extended. One that is
	// larger, since it grew while it was served, is as large as it is. 0: the file must
	// exist, and its own size counts. What is served is rounded down to whole blocks.
	Size int64

	// BlockSize is 512 or 4096. The default is 4096 where the size is a multiple
	// of that or the drive needs it, else 512.
	BlockSize int

	ReadOnly bool
	Buffered bool // through the page cache, with no demands on alignment
	Thin     bool // no preallocation, and what is deallocated is given back: writes may fail with backend.ErrNoSpace

	// Force opens a file that QEMU, a loop device, swap, a mount or a target of the kernel
	// uses. Whoever else writes to it then destroys what hosts store, and the other way
	// round. A file that another store has is refused all the same.
	Force bool

	Engine  Engine
	Threads int // most goroutines of a queue under EngineThreads; default 16

	// LockedThreads promises that each queue is used from one goroutine that is
	// locked to its OS thread, from the first Submit to Close.
	LockedThreads bool
}

func (c *Config) options() disk.Options {
	return disk.Options{Engine: c.Engine, Threads: c.Threads, LockedThreads: c.LockedThreads}
}

// check finds what can be said without the file.
func (c *Config) check() error {
	switch {
	case c.Size < 0:
		return fmt.Errorf("size %d is negative", c.Size)
	case c.BlockSize != 0 && c.BlockSize != 512 && c.BlockSize != 4096:
		return fmt.Errorf("block size %d: must be 512 or 4096", c.BlockSize)
	case c.ReadOnly && c.Size > 0:
		return errors.New("a size cannot be given for a file that is only read")
	}
	_, err := c.options().Check()
	return err
}
