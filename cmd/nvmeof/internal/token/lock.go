package token

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"syscall"

	"github.com/nvmeof-go/nvmeof/internal/shell"
)

// lock waits until no other command changes the file. Without it, of two commands that read the same tokens, the later
// would restore a token that the other has revoked. The file itself is locked, since no other user may open it. Other
// users could hold a lock on its directory forever.
func lock(file string, create bool) (unlock func(), err error) {
	flags := os.O_RDWR | syscall.O_NONBLOCK
	if create {
		flags |= os.O_CREATE
	}
	for {
		f, err := os.OpenFile(file, flags, 0o600)
		if err != nil {
			return nil, missing(file, err)
		}
		same, err := locked(f)
		if err == nil && same {
			return func() { _ = f.Close() }, nil
		}
		_ = f.Close()
		if err != nil {
			return nil, fmt.Errorf("tokens: %w", err)
		}
	}
}

// locked locks a file, and reports whether its path still names it: the previous holder of the lock may have replaced
// the file.
func locked(f *os.File) (same bool, err error) {
	for {
		if err = syscall.Flock(int(f.Fd()), syscall.LOCK_EX); !errors.Is(err, syscall.EINTR) {
			break
		}
	}
	if err != nil {
		return false, &fs.PathError{Op: "lock", Path: f.Name(), Err: err}
	}
	mine, err := f.Stat()
	if err != nil {
		return false, err
	}
	now, err := os.Stat(f.Name())
	if errors.Is(err, fs.ErrNotExist) {
		return false, nil
	}
	return err == nil && os.SameFile(mine, now), err
}

// missing adds the remedy to the error of a file that does not exist.
func missing(file string, err error) error {
	if errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("tokens: %w: create it with nvmeof token create NAME --role ROLE --file %s", err, shell.Quote(file))
	}
	return fmt.Errorf("tokens: %w", err)
}
