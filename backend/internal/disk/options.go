package disk

import "fmt"

// Engine selects how a disk does its I/O.
type Engine uint8

const (
	EngineAuto    Engine = iota // io_uring if the kernel supports it and a ring can be opened, else threads
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

// ParseEngine is the inverse of String.
func ParseEngine(s string) (Engine, error) {
	for e := EngineAuto; e <= EngineThreads; e++ {
		if e.String() == s {
			return e, nil
		}
	}
	return 0, fmt.Errorf("engine %q: must be auto, uring or threads", s)
}

// Options are an administrator's choices. A zero field selects the default.
type Options struct {
	Engine  Engine
	Threads int // maximum goroutines per queue under EngineThreads; default 16

	// LockedThreads promises that each queue that is [backend.ThreadBound] is used from one goroutine locked to its OS
	// thread, from the first Submit to Close.
	LockedThreads bool

	// Workers limit the blocking calls of all disks that have them. Nil: each disk has as many as its queues make.
	Workers *Workers
}

// Check checks the limits and applies the defaults.
func (o Options) Check() (Options, error) {
	switch {
	case o.Engine > EngineThreads:
		return o, fmt.Errorf("%v: no such engine", o.Engine)
	case o.Threads < 0:
		return o, fmt.Errorf("%d threads", o.Threads)
	}
	if o.Threads == 0 {
		o.Threads = 16
	}
	return o, nil
}
