package disk

import (
	"io/fs"
	"math"
	"path"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
)

// goThreads is how many threads the Go runtime allows by default (debug.SetMaxThreads).
const goThreads = 10000

// ThreadLimit returns a limit for [NewWorkers]: half of the threads that this process may have. The rest is for other
// calls that block, such as those that ask a store for its size. The root directory has /proc and /sys.
func ThreadLimit(root fs.FS) int {
	most := uint64(goThreads)
	var l unix.Rlimit
	if unix.Geteuid() != 0 && unix.Getrlimit(unix.RLIMIT_NPROC, &l) == nil { // root is exempt
		most = min(most, l.Cur)
	}
	return int(min(most, groupLimit(root)) / 2)
}

// groupLimit returns the limit of the control group that the process is in, and of those above it (pids.max in
// cgroups(7)).
func groupLimit(root fs.FS) uint64 {
	most := uint64(math.MaxUint64)
	groups, _ := fs.ReadFile(root, "proc/self/cgroup")
	for line := range strings.Lines(string(groups)) {
		fields := strings.SplitN(strings.TrimSpace(line), ":", 3)
		if len(fields) != 3 {
			continue
		}
		base := "sys/fs/cgroup"
		switch fields[1] {
		case "": // version 2
		case "pids":
			base += "/pids"
		default:
			continue
		}
		for at := path.Join("/", fields[2]); ; at = path.Dir(at) {
			text, err := fs.ReadFile(root, path.Join(base, at, "pids.max"))
			if n, bad := strconv.ParseUint(strings.TrimSpace(string(text)), 10, 64); err == nil && bad == nil {
				most = min(most, n)
			}
			if at == "/" {
				break
			}
		}
	}
	return most
}
