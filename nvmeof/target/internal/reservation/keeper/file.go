package keeper

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"syscall"

	"github.com/nvmeof-go/nvmeof/nvmeof/namedfile"
)

// A File keeps a reservation in the file of that name. The file is
// replaced as a whole, so that a power failure leaves the old content or the new; a
// file beside it, of the same name with ".lock", keeps other processes away.
type File string

// maxFile is far above what the most registrants take, in bytes.
const maxFile = 1 << 20

// Lock implements [Locker]. The file that is locked stays there. Nobody named it, so it is
// made and opened where it is, not where a symbolic link of somebody else's leads.
func (f File) Lock() (unlock func() error, err error) {
	name := string(f) + ".lock"
	file, err := os.OpenFile(name, os.O_RDWR|os.O_CREATE|syscall.O_NOFOLLOW, 0o600)
	switch {
	case errors.Is(err, syscall.ELOOP):
		return nil, fmt.Errorf("reservations: %s is a symbolic link: remove it: %w", name, err)
	case err != nil:
		return nil, fmt.Errorf("reservations: %w", err)
	}
	err = syscall.Flock(int(file.Fd()), syscall.LOCK_EX|syscall.LOCK_NB)
	switch {
	case errors.Is(err, syscall.EWOULDBLOCK):
		err = fmt.Errorf("reservations in %s: another target has them (%s is locked): stop that, or name another file", string(f), name)
	case err != nil:
		err = fmt.Errorf("reservations: lock %s: %w", name, err)
	}
	if err != nil {
		return nil, errors.Join(err, file.Close())
	}
	return file.Close, nil
}

// Load implements [Store]. A file that does not exist yet is no error.
func (f File) Load() ([]byte, error) {
	b, err := namedfile.Read(context.Background(), string(f), maxFile)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil, nil
	case err != nil:
		return nil, fmt.Errorf("reservations: %w", err)
	case len(b) == 0:
		return nil, fmt.Errorf("reservations in %s: an empty file was not written by this program", string(f))
	}
	return b, nil
}

// Save implements [Store].
func (f File) Save(b []byte) error {
	if err := namedfile.Replace(string(f), b, namedfile.Options{}); err != nil {
		return fmt.Errorf("reservations: %w", err)
	}
	return nil
}
