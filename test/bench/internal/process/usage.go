package process

import (
	"bytes"
	"fmt"
	"os"
	"strconv"
	"time"

	"golang.org/x/sys/unix"
)

// Tick is the unit of times in /proc (USER_HZ, proc(5)).
const Tick = 10 * time.Millisecond

// CPUTime returns the processor time that a process has used, user and system, with that of its ended threads.
func CPUTime(pid int) (time.Duration, error) {
	b, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return 0, fmt.Errorf("processor time of process %d: %w", pid, err)
	}
	return parseStat(b)
}

// parseStat parses utime and stime of /proc/PID/stat, fields 14 and 15. Field 2, the name, may contain anything.
func parseStat(b []byte) (time.Duration, error) {
	fields := bytes.Fields(b[bytes.LastIndexByte(b, ')')+1:])
	if len(fields) < 13 {
		return 0, fmt.Errorf("/proc/PID/stat is cut off: %q", b)
	}
	var sum time.Duration
	for _, f := range fields[11:13] {
		n, err := strconv.ParseInt(string(f), 10, 64)
		if err != nil {
			return 0, fmt.Errorf("/proc/PID/stat: %w", err)
		}
		sum += time.Duration(n) * Tick
	}
	return sum, nil
}

// Resident returns how many bytes of memory a process has.
func Resident(pid int) (int64, error) {
	b, err := os.ReadFile(fmt.Sprintf("/proc/%d/statm", pid))
	if err != nil {
		return 0, fmt.Errorf("memory of process %d: %w", pid, err)
	}
	fields := bytes.Fields(b)
	if len(fields) < 2 {
		return 0, fmt.Errorf("/proc/PID/statm is cut off: %q", b)
	}
	pages, err := strconv.ParseInt(string(fields[1]), 10, 64)
	return pages * int64(os.Getpagesize()), err
}

// A Watch measures how busy other processes keep the machine.
type Watch struct {
	began   time.Time
	machine time.Duration
	own     time.Duration
}

// NewWatch starts a watch.
func NewWatch() (Watch, error) {
	machine, err := busyTime()
	return Watch{time.Now(), machine, ownTime()}, err
}

// Others returns how many processors other processes have used since the watch began. These are neither this process
// nor ended children of it; daemons is the processor time of further processes that it started, which is subtracted.
// See Stolen for other machines.
func (w Watch) Others(daemons time.Duration) (float64, error) {
	machine, err := busyTime()
	others := machine - w.machine - (ownTime() - w.own) - daemons
	return max(0, others.Seconds()/time.Since(w.began).Seconds()), err
}

// busyTime returns the processor time that processes have used on this machine. It leaves out interrupts: most are
// caused by the benchmark, but the kernel charges them to no process.
func busyTime() (time.Duration, error) { return machineTime(user, nice, system) }

func machineTime(kinds ...int) (time.Duration, error) {
	b, err := os.ReadFile("/proc/stat")
	if err != nil {
		return 0, fmt.Errorf("how busy the machine is: %w", err)
	}
	return parseMachine(b, kinds...)
}

// Fields of the first line of /proc/stat (proc(5)).
const user, nice, system, steal = 1, 2, 3, 8

// Stolen returns for how long, since the machine started, processors had work but the hypervisor gave them to other
// machines.
func Stolen() (time.Duration, error) { return machineTime(steal) }

// parseMachine adds up some of the times of /proc/stat.
func parseMachine(b []byte, kinds ...int) (sum time.Duration, err error) {
	line, _, _ := bytes.Cut(b, []byte("\n"))
	fields := bytes.Fields(line)
	if len(fields) <= steal {
		return 0, fmt.Errorf("/proc/stat begins with %q", line)
	}
	for _, i := range kinds {
		n, err := strconv.ParseInt(string(fields[i]), 10, 64)
		if err != nil {
			return 0, fmt.Errorf("/proc/stat: %w", err)
		}
		sum += time.Duration(n) * Tick
	}
	return sum, nil
}

// ownTime returns the processor time that this process and its ended children have used.
func ownTime() (sum time.Duration) {
	for _, who := range []int{unix.RUSAGE_SELF, unix.RUSAGE_CHILDREN} {
		var r unix.Rusage
		if unix.Getrusage(who, &r) == nil {
			sum += time.Duration(r.Utime.Nano() + r.Stime.Nano())
		}
	}
	return sum
}
