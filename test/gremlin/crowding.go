package main

import (
	"errors"
	"fmt"
	"io/fs"
	"time"

	"github.com/prometheus/procfs"
	"golang.org/x/sys/unix"
)

// A crowding is the processor time that this process, as the attacker, takes on this machine from the honest hosts and
// from a target on the same machine. An attacker on another machine takes none. Its values are totals until a time, or
// differences between two times.
type crowding struct {
	now    time.Time
	lasted time.Duration // between the two times
	idle   time.Duration // idle time of all processors
	own    time.Duration // processor time of this process
	waited time.Duration // time for which threads of the others were runnable but did not run
}

// crowdingOf returns the totals until now. The other processes are given by their process IDs.
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

// waitedFor returns how long the threads of a process have waited for a processor. It is 0 for a process that has
// exited, such as a target that an attack has ended.
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
		sum += time.Duration(s.WaitingNanoseconds) // 0 if the thread has ended
	}
	return sum, nil
}

func gone(err error) bool { return errors.Is(err, fs.ErrNotExist) || errors.Is(err, unix.ESRCH) }

// since returns the differences from an earlier total.
func (c crowding) since(before crowding) crowding {
	return crowding{c.now, c.now.Sub(before.now), c.idle - before.idle, c.own - before.own, c.waited - before.waited}
}

// share returns the share of all processors, 0 to 1, that the attacker took from the others. It is the attacker's
// processor time less what was idle, but at most the time that the others waited beyond what they wait without an
// attack. So a target that does not run for another reason is not excused.
func (c crowding) share(alone crowding, processors int) float64 {
	if c.lasted <= 0 || alone.lasted <= 0 {
		return 0
	}
	used := c.own - max(0, c.idle)
	waited := c.waited - time.Duration(float64(alone.waited)*c.lasted.Seconds()/alone.lasted.Seconds())
	return min(max(0, min(used, waited).Seconds()/(c.lasted.Seconds()*float64(processors))), 1)
}
