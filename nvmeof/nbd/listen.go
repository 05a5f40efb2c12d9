package nbd

import (
	"errors"
	"time"

	"golang.org/x/sys/unix"

	"github.com/nvmeof-go/nvmeof/internal/socketfile"
)

// A listener is a socket from which the loop accepts clients.
type listener struct{ *socketfile.Socket }

// Vacant returns why a server could not listen on a socket of that path, as far as can be seen: another server listens
// there, or it is not a socket.
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

// A renewal is the result of creating the socket again.
type renewal struct {
	socket *socketfile.Socket
	err    error // if not nil, there is no socket
}

// keepSocket creates the socket again whenever its file has been removed, until the loop has ended. Connected clients
// do not notice, but without the file no other client could connect. The loop is told of an error only if it differs
// from the last one. If another process has taken the path, keepSocket gives up: clients that return there should find
// that process's disks.
func (s *Server) keepSocket(now *socketfile.Socket) {
	defer close(s.socketKept)
	tick := time.NewTicker(s.cfg.lookInterval())
	defer tick.Stop()
	last := ""
	for {
		select {
		case <-s.ended:
			if r := s.renewed.Swap(nil); r != nil && r.err == nil {
				_ = r.socket.Close() // the loop never used it
			}
			return
		case <-tick.C:
		}
		if now.There() || s.renewed.Load() != nil {
			continue
		}
		next, err := socketfile.Listen(s.cfg.Socket)
		switch {
		case err == nil:
			now, last = next, ""
		case err.Error() == last:
			continue
		default:
			last = err.Error()
		}
		s.renewed.Store(&renewal{next, err})
		s.wake.Set()
		if errors.As(err, new(*socketfile.TakenError)) {
			return
		}
	}
}
