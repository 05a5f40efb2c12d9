package main

import (
	"errors"
	"fmt"
	"io/fs"
	"time"

	"github.com/prometheus/procfs"
	"golang.org/x/sys/unix"
)

// A crowding is what this process, as the attacker, takes of the machine's processors from those who behave, and
// from a target on the same machine. An attacker elsewhere takes none of them. It says what has been used until
// some time, or from one to another.
type crowding struct {
	now    time.Time
	lasted time.Duration // between the two
	idle   time.Duration // of all processors
	own    time.Duration // processor time of this process
	waited time.Duration // for which threads of the others could have run, and did not
}

// crowdingOf is that until now, beside other processes.
func crowdingOf(others []int) (c crowding, err error) {
	c.now = time.Now()
	proc, err := procfs.NewDefaultFS()
	if err != nil {
		return c, fmt.Errorf("how busy the machine is: %w", err)
	}
	stat, err := proc.Stat()
	if err != nil {
		return c, fmt.Errorf("how busy the machine is: %w", err)
	}
	c.idle = time.Duration((stat.CPUTotal.Idle + stat.CPUTotal.Iowait) * float64(time.Second))
	var r unix.Rusage
	if err := unix.Getrusage(unix.RUSAGE_SELF, &r); err != nil {
		return c, fmt.Errorf("processor time used: %w", err)
	}
	c.own = time.Duration(r.Utime.Nano() + r.Stime.Nano())
	for _, pid := range others {
		waited, err := waitedFor(pid)
		if err != nil {
			return c, err
		}
		c.waited += waited
	}
	return c, nil
}

// waitedFor is how long the threads of a process have waited for a processor. One that is gone, as a target that
// an attack has ended, has waited for none.
func waitedFor(pid int) (sum time.Duration, err error) {
	threads, err := procfs.AllThreads(pid)
	if gone(err) {
		return 0, nil
	}
	if err != nil {
		return 0, fmt.Errorf("threads of process %d: %w", pid, err)
	}
	for _, t := range threads {
		s, err := t.Schedstat()
		if err != nil && !gone(err) {
			return 0, fmt.Errorf("how long thread %d waited: %w", t.PID, err)
		}
		sum += time.Duration(s.WaitingNanoseconds) // 0 of one that has ended
	}
	return sum, nil
}

func gone(err error) bool { return errors.Is(err, fs.ErrNotExist) || errors.Is(err, unix.ESRCH) }

// since is what was used between two times.
func (c crowding) since(before crowding) crowding {
	return crowding{c.now, c.now.Sub(before.now), c.idle - before.idle, c.own - before.own, c.waited - before.waited}
}

// share is the part of all processors that was taken: what the attacker used, less what was idle all the
// same, but no more than the others waited for beyond what they wait for without it. A target that does not run
// for another reason is not excused. It is 0 to 1.
func (c crowding) share(alone crowding, processors int) float64 {
	if c.lasted <= 0 || alone.lasted <= 0 {
		return 0
	}
	used := c.own - max(0, c.idle)
	waited := c.waited - time.Duration(float64(alone.waited)*c.lasted.Seconds()/alone.lasted.Seconds())
	return min(max(0, min(used, waited).Seconds()/(c.lasted.Seconds()*float64(processors))), 1)
}
