package socketfile

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"sync"

	"golang.org/x/sys/unix"

	"github.com/nvmeof-go/nvmeof/internal/shell"
)

const (
	backlog = 4096 // or what the system allows; beyond it clients are refused
	maxPath = 107  // unix(7), without the terminating zero
)

// A Socket is a listening unix socket and its file.
type Socket struct {
	path     string
	fd       int
	dev, ino uint64 // of the file
	close    func() error
}

// Listen makes a socket of mode 0600 and listens: clients that connect wait in the backlog. It replaces a socket that
// is not served. If the socket is served the error is a [*TakenError]; if the path is that of another kind of file, an
// [*OccupiedError].
func Listen(path string) (*Socket, error) {
	if err := checkPath(path); err != nil {
		return nil, err
	}
	defer unlock(lock(filepath.Dir(path), lockWait))
	return listen(path)
}

func listen(path string) (s *Socket, err error) {
	fd, err := unix.Socket(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_NONBLOCK|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return nil, fmt.Errorf("socket %s: %w", path, err)
	}
	defer func() {
		if err != nil {
			_ = unix.Close(fd) // the error says why
		}
	}()
	// The file that bind creates gets the mode of the socket, so that at no time can other users open it.
	if err := unix.Fchmod(fd, 0o600); err != nil {
		return nil, fmt.Errorf("socket %s: %w", path, err)
	}
	err = unix.Bind(fd, &unix.SockaddrUnix{Name: path})
	if errors.Is(err, unix.EADDRINUSE) {
		if err = removeDead(path); err != nil {
			return nil, err
		}
		err = unix.Bind(fd, &unix.SockaddrUnix{Name: path})
	}
	if errors.Is(err, unix.EADDRINUSE) { // a process without the lock was faster
		err = &TakenError{path}
		return nil, err
	}
	if err != nil {
		return nil, fmt.Errorf("%s cannot be made: %w: %s", path, err, placeHint(path, err))
	}
	s = &Socket{path: path, fd: fd}
	s.close = sync.OnceValue(s.end)
	if s.dev, s.ino, err = identity(path); err != nil {
		return nil, err
	}
	if err := unix.Listen(fd, backlog); err != nil {
		return nil, errors.Join(fmt.Errorf("socket %s: %w", path, err), os.Remove(path))
	}
	return s, nil
}

func placeHint(path string, err error) string {
	if dir := filepath.Dir(path); errors.Is(err, fs.ErrNotExist) {
		return fmt.Sprintf("create that directory (mkdir -p %s), or give another path", shell.Quote(dir))
	}
	return fmt.Sprintf("give a path in a directory that user %d may write to", os.Geteuid())
}

// checkPath rejects a path that cannot be that of a socket in the file system.
func checkPath(path string) error {
	switch {
	case path == "":
		return errors.New("a socket needs a path")
	case len(path) > maxPath:
		return fmt.Errorf("%s has %d characters, but the path of a socket at most %d", path, len(path), maxPath)
	case path[0] == '@': // the net package uses such names for sockets outside the file system
		return fmt.Errorf("%s is not a path: give ./%s or an absolute path for the socket", path, path)
	}
	return nil
}

// A TakenError says that a process serves the socket.
type TakenError struct{ Path string }

func (e *TakenError) Error() string {
	return e.Path + " is served by another process: end it, or choose another path"
}

// An OccupiedError says that the file at the path is not a socket.
type OccupiedError struct{ Path string }

func (e *OccupiedError) Error() string {
	return e.Path + " exists and is not a socket: give another path, or move it away"
}

// Vacant returns the error with which [Listen] would reject a path, as far as can be seen without making the socket.
func Vacant(path string) error {
	if err := checkPath(path); err != nil {
		return err
	}
	_, err := os.Lstat(path)
	if dir := filepath.Dir(path); errors.Is(err, fs.ErrNotExist) {
		if _, err := os.Stat(dir); err != nil {
			return fmt.Errorf("socket %s: %w: %s", path, err, placeHint(path, err))
		}
		return nil
	}
	return mayRemove(path)
}

// RemoveDead removes a socket that is not served, and nothing else. Use it for a socket that another process left
// behind.
func RemoveDead(path string) error {
	folder := lock(filepath.Dir(path), removeWait)
	if folder == nil {
		return nil // try again another time
	}
	defer unlock(folder)
	return removeDead(path)
}

func removeDead(path string) error {
	if err := mayRemove(path); err != nil {
		return err
	}
	if err := os.Remove(path); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("remove the socket of a process that has ended: %w", err)
	}
	return nil
}

// mayRemove returns an error for a file that is not a socket, and for a socket that is served. A missing file is no
// error.
func mayRemove(path string) error {
	info, err := os.Lstat(path)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil
	case err != nil:
		return fmt.Errorf("socket: %w", err)
	case info.Mode().Type() != fs.ModeSocket:
		return &OccupiedError{path}
	}
	fd, err := unix.Socket(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_NONBLOCK|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return fmt.Errorf("socket: %w", err)
	}
	defer unix.Close(fd)
	err = unix.Connect(fd, &unix.SockaddrUnix{Name: path})
	switch {
	case errors.Is(err, unix.ECONNREFUSED), errors.Is(err, unix.ENOENT):
		return nil
	case err == nil, errors.Is(err, unix.EAGAIN), errors.Is(err, unix.EPROTOTYPE): // EAGAIN: its backlog is full
		return &TakenError{path}
	}
	return fmt.Errorf("socket %s, which may be served: %w", path, err)
}

func identity(path string) (dev, ino uint64, err error) {
	var st unix.Stat_t
	if err := unix.Lstat(path, &st); err != nil {
		return 0, 0, fmt.Errorf("socket %s: %w", path, err)
	}
	return uint64(st.Dev), st.Ino, nil
}

// Path returns the path of the file.
func (s *Socket) Path() string { return s.path }

// Descriptor returns the socket's descriptor, which is non-blocking. The Socket owns it until Close.
func (s *Socket) Descriptor() int { return s.fd }

// There reports whether the file exists and is the socket's: another program may have removed it.
func (s *Socket) There() bool {
	dev, ino, err := identity(s.path)
	return err == nil && dev == s.dev && ino == s.ino
}

// Close removes the file, unless another one has taken its place, and then closes the socket. In this order no other
// process replaces the file, and no other file gets its inode number. Later calls do nothing.
func (s *Socket) Close() error { return s.close() }

func (s *Socket) end() error {
	var err error
	if s.There() {
		if err = os.Remove(s.path); errors.Is(err, fs.ErrNotExist) {
			err = nil
		}
	}
	return errors.Join(err, unix.Close(s.fd))
}
