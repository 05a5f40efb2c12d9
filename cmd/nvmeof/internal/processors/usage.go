package processors

import (
	"bytes"
	"os"
	"strconv"
	"time"

	"golang.org/x/sys/unix"
)

// Usage is the processor time that the machine and this process had used at some time.
type Usage struct {
	at        time.Time
	all, self time.Duration
}

// StartUsage starts to measure.
func StartUsage() Usage {
	return Usage{time.Now(), machineTime(), ownTime()}
}

// Others returns how many processors other processes kept busy since then, on average.
func (u Usage) Others() float64 {
	now := StartUsage()
	return max(0, ((now.all-u.all)-(now.self-u.self)).Seconds()/now.at.Sub(u.at).Seconds())
}

// machineTime returns the time that all processors spent on processes: user, nice and system of /proc/stat, in
// hundredths of a second (proc(5)).
func machineTime() (sum time.Duration) {
	b, err := os.ReadFile("/proc/stat")
	if err != nil {
		return 0
	}
	line, _, _ := bytes.Cut(b, []byte("\n"))
	for i, f := range bytes.Fields(line) {
		if i >= 1 && i <= 3 {
			n, _ := strconv.ParseInt(string(f), 10, 64)
			sum += time.Duration(n) * 10 * time.Millisecond
		}
	}
	return sum
}

func ownTime() time.Duration {
	var r unix.Rusage
	if unix.Getrusage(unix.RUSAGE_SELF, &r) != nil {
		return 0
	}
	return time.Duration(r.Utime.Nano() + r.Stime.Nano())
}
