package nbd

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"golang.org/x/sys/unix"
)

// A listener is a unix socket in the file system that nobody else can open.
type listener struct {
	fd       int
	path     string
	dev, ino uint64 // of the file
}

const backlog = 64

// listen takes the place of a socket that its server left behind, but not of one
// that is served.
func listen(path string) (l *listener, err error) {
	fd, err := unix.Socket(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_NONBLOCK|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return nil, fmt.Errorf("socket %s: %w", path, err)
	}
	defer func() {
		if err != nil {
			_ = unix.Close(fd) // the error says why
		}
	}()
	// The file that bind makes gets the mode that the socket has: at no time can
	// others open it.
	if err := unix.Fchmod(fd, 0o600); err != nil {
		return nil, fmt.Errorf("socket %s: %w", path, err)
	}
	err = unix.Bind(fd, &unix.SockaddrUnix{Name: path})
	if errors.Is(err, unix.EADDRINUSE) {
		if err = removeStale(path); err != nil {
			return nil, err
		}
		err = unix.Bind(fd, &unix.SockaddrUnix{Name: path})
	}
	if err != nil {
		return nil, fmt.Errorf("socket %s: %w%s", path, err, bindHint(path, err))
	}
	l = &listener{fd: fd, path: path}
	if err := unix.Listen(fd, backlog); err != nil {
		return nil, fmt.Errorf("socket %s: %w", path, err)
	}
	l.dev, l.ino, err = identity(path)
	return l, err
}

func bindHint(path string, err error) string {
	switch {
	case errors.Is(err, unix.EINVAL) && len(path) > 107:
		return ": a path of at most 107 bytes is needed"
	case errors.Is(err, unix.EACCES):
		return ": choose a folder that this user may write to"
	}
	return ""
}

// Vacant says why a server could not listen on a socket of that path, as far as a look
// tells: somebody is served there, or it is no socket.
func Vacant(path string) error {
	_, err := os.Lstat(path)
	if dir := filepath.Dir(path); os.IsNotExist(err) {
		if _, err := os.Stat(dir); err != nil {
			return fmt.Errorf("socket %s: %w: make that folder, as by mkdir -p %s, or give another path", path, err, dir)
		}
		return nil
	}
	return mayReplace(path)
}

// removeStale removes a socket on which nobody listens.
func removeStale(path string) error {
	if err := mayReplace(path); err != nil {
		return err
	}
	if err := os.Remove(path); err != nil {
		return fmt.Errorf("removing a socket that no process serves: %w", err)
	}
	return nil
}

// mayReplace refuses what is no socket, and one on which somebody listens.
func mayReplace(path string) error {
	info, err := os.Lstat(path)
	if err != nil {
		return fmt.Errorf("socket: %w", err)
	}
	if info.Mode().Type() != os.ModeSocket {
		return fmt.Errorf("%s is there already and no socket: choose another path", path)
	}
	fd, err := unix.Socket(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_NONBLOCK|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return fmt.Errorf("socket: %w", err)
	}
	defer unix.Close(fd)
	err = unix.Connect(fd, &unix.SockaddrUnix{Name: path})
	if !errors.Is(err, unix.ECONNREFUSED) {
		return fmt.Errorf("%s is served by another process: end that, or choose another path", path)
	}
	return nil
}

func identity(path string) (dev, ino uint64, err error) {
	var st unix.Stat_t
	if err := unix.Stat(path, &st); err != nil {
		return 0, 0, fmt.Errorf("socket %s: %w", path, err)
	}
	return st.Dev, st.Ino, nil
}

// close ends listening and removes the file, unless another has taken its place.
func (l *listener) close() error {
	dev, ino, err := identity(l.path)
	if err == nil && dev == l.dev && ino == l.ino {
		err = os.Remove(l.path)
	} else {
		err = nil
	}
	return errors.Join(err, unix.Close(l.fd))
}

// accept returns a client's socket, or unix.EAGAIN.
func (l *listener) accept() (int, error) {
	fd, _, err := unix.Accept4(l.fd, unix.SOCK_NONBLOCK|unix.SOCK_CLOEXEC)
	return fd, err
}

// wanted reports whether a client waits to be accepted.
func (l *listener) wanted() bool {
	p := []unix.PollFd{{Fd: int32(l.fd), Events: unix.POLLIN}}
	n, err := unix.Poll(p, 0)
	return n > 0 || err != nil
}
