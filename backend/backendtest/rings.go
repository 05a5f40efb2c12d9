package backendtest

import (
	"fmt"
	"os"

	"golang.org/x/sys/unix"

	"github.com/nvmeof-go/nvmeof/backend/internal/uring"
)

// enoughLocked is how many bytes of memory rings take that are open at the same time in a
// test, and of those that were closed just before, which the kernel gives back later.
const enoughLocked = 8 << 20

// NoRings is why a test cannot have as many io_urings as it likes, or nil: the kernel has
// none, or a user may lock too little memory.
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
