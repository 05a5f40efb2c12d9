package guest

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"
)

// ProcessorTime is how long this machine's processors have worked for those of the
// guest since it booted: what the guest counts as busy, but without the time in which
// others kept this machine's processors from it.
func (g *Guest) ProcessorTime() (sum time.Duration, err error) {
	tasks, _ := filepath.Glob(fmt.Sprintf("/proc/%d/task/*", g.qemu.Pid))
	found := false
	for _, dir := range tasks {
		name, err := os.ReadFile(filepath.Join(dir, "comm"))
		if err != nil || !strings.HasPrefix(string(name), "CPU ") { // as in "CPU 0/TCG"
			continue
		}
		b, err := os.ReadFile(filepath.Join(dir, "schedstat"))
		if err != nil {
			return 0, fmt.Errorf("guest: %w", err)
		}
		var ran int64 // nanoseconds
		if _, err := fmt.Sscan(string(b), &ran); err != nil {
			return 0, fmt.Errorf("guest: %s/schedstat: %w", dir, err)
		}
		sum += time.Duration(ran)
		found = true
	}
	if !found {
		return 0, fmt.Errorf("guest: QEMU's process %d has no threads for processors", g.qemu.Pid)
	}
	return sum, nil
}
