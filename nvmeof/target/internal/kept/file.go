package kept

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"syscall"

	"github.com/nvmeof-go/nvmeof/internal/namedfile"
)

// A File is replaced as a whole, so that a power failure leaves the old content or the new. A file beside it, with
// the suffix ".lock", excludes other processes.
type File struct {
	Name string
	What string // describes the contents; begins the text of errors
}

// String returns the file's name.
func (f File) String() string { return f.Name }

// maxFile is the maximum size in bytes. It exceeds the size of records with the maximum number of registrants (1.3
// MB), and of namespaces and departed namespaces (2.2 MB). A larger record is not saved, since it could not be
// read again.
const maxFile = 4 << 20

// Lock locks the file. It fails at once if another process has locked it. The lock file is never removed. Since
// its name was not configured, it is created and opened in place, and symbolic links are not followed.
func (f File) Lock() (unlock func() error, err error) {
	name := f.Name + ".lock"
	file, err := os.OpenFile(name, os.O_RDWR|os.O_CREATE|syscall.O_NOFOLLOW, 0o600)
	switch {
	case errors.Is(err, syscall.ELOOP):
		return nil, fmt.Errorf("%s: %s is a symbolic link: remove it: %w", f.What, name, err)
	case err != nil:
		return nil, fmt.Errorf("%s: %w", f.What, err)
	}
	err = syscall.Flock(int(file.Fd()), syscall.LOCK_EX|syscall.LOCK_NB)
	switch {
	case errors.Is(err, syscall.EWOULDBLOCK):
		err = fmt.Errorf("%s in %s: another target uses them (%s is locked): stop it, or name another file", f.What, f.Name, name)
	case err != nil:
		err = fmt.Errorf("%s: lock %s: %w", f.What, name, err)
	}
	if err != nil {
		return nil, errors.Join(err, file.Close())
	}
	return file.Close, nil
}

// Load returns what was saved last, or nil if nothing was. It is no error if the file does not exist yet.
func (f File) Load() ([]byte, error) {
	b, err := namedfile.Read(context.Background(), f.Name, maxFile)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil, nil
	case err != nil:
		return nil, fmt.Errorf("%s: %w", f.What, err)
	case len(b) == 0:
		return nil, fmt.Errorf("%s in %s: the file is empty, so this program did not write it", f.What, f.Name)
	}
	return b, nil
}

// Save returns when b is durable. If it fails, what was saved before stays.
func (f File) Save(b []byte) error {
	if len(b) > maxFile {
		return fmt.Errorf("%s in %s: %d bytes are more than the %d that a later start would read", f.What, f.Name, len(b), maxFile)
	}
	if err := namedfile.Replace(f.Name, b, namedfile.Options{}); err != nil {
		return fmt.Errorf("%s: %w", f.What, err)
	}
	return nil
}
