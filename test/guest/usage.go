package guest

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"
)

// ProcessorTime returns how long this machine's processors have worked for those of the guest since it booted. It is
// what the guest counts as busy, without the time in which other programs used this machine's processors.
func (g *Guest) ProcessorTime() (sum time.Duration, err error) {
	err = g.processors(func(ran, _ time.Duration) { sum += ran })
	return sum, err
}

// ProcessorWait returns how long the guest's processors have waited for one of this machine's since the guest booted:
// the time of the one that has waited longest.
func (g *Guest) ProcessorWait() (longest time.Duration, err error) {
	err = g.processors(func(_, waited time.Duration) { longest = max(longest, waited) })
	return longest, err
}

// processors calls f with the kernel's times of each thread that is a processor of the guest.
func (g *Guest) processors(f func(ran, waited time.Duration)) error {
	tasks, _ := filepath.Glob(fmt.Sprintf("/proc/%d/task/*", g.qemu.Pid))
	found := false
	for _, dir := range tasks {
		name, err := os.ReadFile(filepath.Join(dir, "comm"))
		if err != nil || !strings.HasPrefix(strings.TrimPrefix(string(name), "ALL "), "CPU") { // "CPU 0/TCG", "ALL CPUs/TCG"
			continue
		}
		b, err := os.ReadFile(filepath.Join(dir, "schedstat"))
		if err != nil {
			return fmt.Errorf("guest: %w", err)
		}
		var ran, waited int64 // nanoseconds
		if _, err := fmt.Sscan(string(b), &ran, &waited); err != nil {
			return fmt.Errorf("guest: %s/schedstat: %w", dir, err)
		}
		f(time.Duration(ran), time.Duration(waited))
		found = true
	}
	if !found {
		return fmt.Errorf("guest: QEMU's process %d has no threads for processors", g.qemu.Pid)
	}
	return nil
}
