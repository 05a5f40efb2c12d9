package nbd

import (
	"errors"
	"time"

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

// A renewal is what came of making the socket again, for the loop.
type renewal struct {
	socket *socketfile.Socket
	err    error // instead
}

// stay makes the socket again whenever its file has gone, until the loop is over: clients that
// are there do not notice, and no other could come. Of a failure the loop hears where that is
// another one than before. A path that another process has taken stays with that: who comes
// back there is to find the disk that it had.
func (s *Server) stay(now *socketfile.Socket) {
	defer close(s.stayed)
	tick := time.NewTicker(s.cfg.lookInterval())
	defer tick.Stop()
	last := ""
	for {
		select {
		case <-s.ended:
			if r := s.renewed.Swap(nil); r != nil && r.err == nil {
				_ = r.socket.Close() // it was never served
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
