package nbd

import (
	"golang.org/x/sys/unix"

	"github.com/nvmeof-go/nvmeof/internal/socketfile"
)

// A listener is a socket that the loop accepts from.
type listener struct{ *socketfile.Socket }

// Vacant says why a server could not listen on a socket of that path, as far as a look
// tells: somebody is served there, or it is no socket.
func Vacant(path string) error { return socketfile.Vacant(path) }

// accept returns a client's socket, or unix.EAGAIN.
func (l listener) accept() (int, error) {
	fd, _, err := unix.Accept4(l.Descriptor(), unix.SOCK_NONBLOCK|unix.SOCK_CLOEXEC)
	return fd, err
}

// wanted reports whether a client waits to be accepted.
func (l listener) wanted() bool {
	p := []unix.PollFd{{Fd: int32(l.Descriptor()), Events: unix.POLLIN}}
	n, err := unix.Poll(p, 0)
	return n > 0 || err != nil
}
