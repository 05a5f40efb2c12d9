package backendtest

import (
	"fmt"
	"os"

	"golang.org/x/sys/unix"

	"github.com/nvmeof-go/nvmeof/backend/internal/uring"
)

// enoughLocked is the locked memory in bytes of all rings that a test has open at one time, and of those closed just
// before, which the kernel frees later.
const enoughLocked = 8 << 20

// NoRings returns why a test cannot open as many io_urings as it needs, or nil. The kernel may not support them, or the
// limit on locked memory may be too low.
func NoRings() error {
	r, err := uring.New(uring.Config{Entries: 1})
	if err != nil {
		return err
	}
	if err := r.Close(); err != nil {
		return err
	}
	var limit unix.Rlimit
	if err := unix.Getrlimit(unix.RLIMIT_MEMLOCK, &limit); err != nil {
		return err
	}
	if os.Geteuid() != 0 && limit.Cur < enoughLocked {
		return fmt.Errorf("%d bytes of memory may be locked (ulimit -l), too few for many io_urings", limit.Cur)
	}
	return nil
}
