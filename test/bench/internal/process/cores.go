package process

import (
	"errors"
	"fmt"
	"os/exec"
	"runtime"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
)

// Cores are the numbers of processors, as the kernel counts them.
type Cores []int

// ParseCores parses a list such as 0,2,3.
func ParseCores(s string) (Cores, error) {
	var cores Cores
	for field := range strings.SplitSeq(s, ",") {
		n, err := strconv.Atoi(strings.TrimSpace(field))
		if err != nil || n < 0 {
			return nil, fmt.Errorf("%q: processors are numbers with commas between them, as in 0,1", s)
		}
		cores = append(cores, n)
	}
	return cores, nil
}

func (c Cores) set() *unix.CPUSet {
	var set unix.CPUSet
	for _, n := range c {
		set.Set(n)
	}
	return &set
}

// Check returns an error if this process may not use all of them.
func (c Cores) Check() error {
	var allowed unix.CPUSet
	if err := unix.SchedGetaffinity(0, &allowed); err != nil {
		return fmt.Errorf("which processors may be used: %w", err)
	}
	for _, n := range c {
		if !allowed.IsSet(n) {
			return fmt.Errorf("processor %d is not there, or not for this process", n)
		}
	}
	return nil
}

// Start starts a command on these processors: the command inherits the processors of the thread that starts it.
func (c Cores) Start(cmd *exec.Cmd) error {
	runtime.LockOSThread()
	var before unix.CPUSet
	if err := unix.SchedGetaffinity(0, &before); err != nil {
		return fmt.Errorf("which processors may be used: %w", err)
	}
	if err := unix.SchedSetaffinity(0, c.set()); err != nil {
		return fmt.Errorf("processors %v: %w", []int(c), err)
	}
	err := cmd.Start()
	if back := unix.SchedSetaffinity(0, &before); back != nil {
		return errors.Join(err, back) // the thread stays locked, since it cannot be used otherwise
	}
	runtime.UnlockOSThread()
	return err
}

// PinThread restricts the calling thread to one processor for good.
func PinThread(core int) error {
	if err := unix.SchedSetaffinity(0, Cores{core}.set()); err != nil {
		return fmt.Errorf("processor %d: %w", core, err)
	}
	return nil
}
