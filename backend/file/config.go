package file

import (
	"errors"
	"fmt"
)

// Engine is how a store does its I/O.
type Engine uint8

const (
	EngineAuto    Engine = iota // io_uring where the kernel has it, else threads
	EngineURing                 // io_uring, or an error
	EngineThreads               // goroutines in blocking system calls
)

func (e Engine) String() string {
	switch e {
	case EngineAuto:
		return "auto"
	case EngineURing:
		return "uring"
	case EngineThreads:
		return "threads"
	}
	return fmt.Sprintf("engine %d", uint8(e))
}

// ParseEngine is the reverse of String.
func ParseEngine(s string) (Engine, error) {
	for e := EngineAuto; e <= EngineThreads; e++ {
		if e.String() == s {
			return e, nil
		}
	}
	return 0, fmt.Errorf("engine %q: must be auto, uring or threads", s)
}

// Config says how a file is stored and served. A zero field takes the default.
type Config struct {
	// Size in bytes: a missing file is created, a smaller one extended, a
	// larger one refused. 0: the file must exist, and its own size counts. What
	// is served is rounded down to whole blocks.
	Size int64

	// BlockSize is 512 or 4096. The default is 4096 where the size is a multiple
	// of that or the drive needs it, else 512.
	BlockSize int

	ReadOnly bool
	Buffered bool // through the page cache, with no demands on alignment
	Thin     bool // no preallocation: writes may fail with backend.ErrNoSpace

	Engine  Engine
	Threads int // most goroutines of a queue under EngineThreads; default 16

	// LockedThreads promises that each queue is used from one goroutine that is
	// locked to its OS thread, from the first Submit to Close.
	LockedThreads bool
}

// check applies defaults and limits.
func (c Config) check() (Config, error) {
	switch {
	case c.Size < 0:
		return c, fmt.Errorf("size %d is negative", c.Size)
	case c.BlockSize != 0 && c.BlockSize != 512 && c.BlockSize != 4096:
		return c, fmt.Errorf("block size %d: must be 512 or 4096", c.BlockSize)
	case c.Engine > EngineThreads:
		return c, fmt.Errorf("%v: no such engine", c.Engine)
	case c.Threads < 0:
		return c, fmt.Errorf("%d threads", c.Threads)
	case c.ReadOnly && c.Size > 0:
		return c, errors.New("a size cannot be given for a file that is only read")
	}
	if c.Threads == 0 {
		c.Threads = 16
	}
	return c, nil
}
