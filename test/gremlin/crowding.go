package main

import (
	"fmt"
	"runtime"
	"time"

	"github.com/prometheus/procfs"
	"golang.org/x/sys/unix"
)

// A crowding is what this process, as the attacker, takes of the machine's processors from those who behave, and
// from a target on the same machine. An attacker elsewhere takes none of them.
type crowding struct {
	began     time.Time
	idle, own time.Duration // of all processors; the processor time of this process
}

func startCrowding() (c crowding, err error) {
	c.began = time.Now()
	fs, err := procfs.NewDefaultFS()
	if err != nil {
		return c, fmt.Errorf("how busy the machine is: %w", err)
	}
	stat, err := fs.Stat()
	if err != nil {
		return c, fmt.Errorf("how busy the machine is: %w", err)
	}
	c.idle = time.Duration((stat.CPUTotal.Idle + stat.CPUTotal.Iowait) * float64(time.Second))
	var r unix.Rusage
	if err := unix.Getrusage(unix.RUSAGE_SELF, &r); err != nil {
		return c, fmt.Errorf("processor time used: %w", err)
	}
	c.own = time.Duration(r.Utime.Nano() + r.Stime.Nano())
	return c, nil
}

// share is the part of all processors that was taken since then: what the attacker used, less what was idle all
// the same, which nobody else wanted. It is 0 to 1.
func (c crowding) share() (float64, error) {
	now, err := startCrowding()
	return taken(now.own-c.own, now.idle-c.idle, now.began.Sub(c.began), runtime.NumCPU()), err
}

func taken(own, idle, lasted time.Duration, processors int) float64 {
	if lasted <= 0 {
		return 0
	}
	return min(max(0, (own-max(0, idle)).Seconds()/(lasted.Seconds()*float64(processors))), 1)
}
