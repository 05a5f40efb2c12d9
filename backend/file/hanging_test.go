package file

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/nvmeof-go/nvmeof/backend"
	"github.com/nvmeof-go/nvmeof/backend/internal/disk"
)

// hangName is the name whose lookup makes a losingFS answer no more writes.
const hangName = "hang"

// hangUnderQueues runs as root of its own user namespace.
func hangUnderQueues(dir string) {
	const queues, each, limit = 4, 16, 4
	mounted(dir, true, func(dir string) error {
		s, err := Open(filepath.Join(dir, losingName), Config{Engine: EngineThreads, Workers: disk.NewWorkers(limit)})
		if err != nil {
			return err
		}
		_, _ = os.Stat(filepath.Join(dir, hangName))
		before := threadsNow()
		for i := range int64(queues) {
			q, err := s.NewQueue(each, nil)
			if err != nil {
				return err
			}
			for k := range int64(each) {
				r := writeRequest(4096, 1)
				r.Offset = (i*each + k) * 8192
				q.Submit([]backend.Request{r})
			}
		}
		for most, look := before, 0; look < 100; look++ {
			if most = max(most, threadsNow()); most > before+2*(limit+1) { // some that are idle do not count yet
				return fmt.Errorf("%d threads, and %d before, for %d calls and one beyond that", most, before, limit)
			}
			time.Sleep(time.Millisecond)
		}
		if _, err := s.Refresh(); err != nil {
			return errors.New("nothing else can be asked")
		}
		return nil
	})
	fmt.Println("done")
}

// threadsNow returns the number of threads of this process.
func threadsNow() int {
	tasks, err := os.ReadDir("/proc/self/task")
	must(err)
	return len(tasks)
}

// TestHungStoreHasFewThreads: a file system that does not answer occupies only as many threads as the store's workers
// allow, however many writes wait for it in however many queues.
func TestHungStoreHasFewThreads(t *testing.T) {
	runOnFUSE(t, "hang")
}

// runOnFUSE runs a role on a file system of FUSE, in a process with namespaces of its own.
func runOnFUSE(t *testing.T, role string) {
	t.Helper()
	if _, err := os.Stat("/dev/fuse"); err != nil {
		t.Skipf("this machine has no FUSE: %v", err)
	}
	_, out := startRole(t, role, t.TempDir(), func(cmd *exec.Cmd) { cmd.SysProcAttr = namespaces() })
	switch line, _ := out.ReadString('\n'); {
	case line == "done\n":
	case strings.HasPrefix(line, "cannot mount"):
		t.Skip(line)
	default:
		t.Errorf("role %s: %q", role, line)
	}
}
