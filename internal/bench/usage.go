package bench

import (
	"time"

	"golang.org/x/sys/unix"
)

// Usage is the process's use of the machine. For a namespace it includes the fabric's loops and the load itself, but no
// kernel work that is not charged to a process.
type Usage struct {
	User, System time.Duration
	Switches     int64 // context switches
	Major, Minor int64 // page faults
}

func usageNow() Usage {
	var r unix.Rusage
	if unix.Getrusage(unix.RUSAGE_SELF, &r) != nil {
		return Usage{}
	}
	return Usage{time.Duration(r.Utime.Nano()), time.Duration(r.Stime.Nano()), int64(r.Nvcsw) + int64(r.Nivcsw), int64(r.Majflt), int64(r.Minflt)}
}

// since returns one of n equal shares of the usage since an earlier time.
func (u Usage) since(o Usage, n int) Usage {
	k := int64(n)
	return Usage{(u.User - o.User) / time.Duration(n), (u.System - o.System) / time.Duration(n),
		(u.Switches - o.Switches) / k, (u.Major - o.Major) / k, (u.Minor - o.Minor) / k}
}

func (u *Usage) add(o Usage) {
	u.User += o.User
	u.System += o.System
	u.Switches += o.Switches
	u.Major += o.Major
	u.Minor += o.Minor
}
