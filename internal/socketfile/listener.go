package socketfile

import (
	"errors"
	"fmt"
	"net"
	"os"
	"sync"
	"time"

	"golang.org/x/sys/unix"
)

// A Listener accepts from a socket, and from another in its place where its file was removed.
type Listener struct {
	path string

	mu     sync.Mutex
	now    *served
	closed bool
	done   chan struct{} // closed with it
}

// served is a socket from which is accepted.
type served struct {
	*Socket
	accepting net.Listener
}

// NewListener listens as [Listen] does.
func NewListener(path string) (*Listener, error) {
	now, err := serve(path)
	if err != nil {
		return nil, err
	}
	return &Listener{path: path, now: now, done: make(chan struct{})}, nil
}

func serve(path string) (*served, error) {
	s, err := Listen(path)
	if err != nil {
		return nil, err
	}
	fd, err := unix.FcntlInt(uintptr(s.fd), unix.F_DUPFD_CLOEXEC, 0)
	if err != nil {
		return nil, errors.Join(fmt.Errorf("socket %s: %w", path, err), s.Close())
	}
	file := os.NewFile(uintptr(fd), path)
	l, err := net.FileListener(file) // with a descriptor of its own
	if err = errors.Join(err, file.Close()); err != nil {
		return nil, errors.Join(fmt.Errorf("socket %s: %w", path, err), s.Close())
	}
	return &served{s, l}, nil
}

func (s *served) end() error { return errors.Join(s.Close(), s.accepting.Close()) }

func (l *Listener) current() *served {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.now
}

// Accept is [net.Listener]'s.
func (l *Listener) Accept() (net.Conn, error) {
	for {
		now := l.current()
		c, err := now.accepting.Accept()
		if err == nil || now == l.current() {
			return c, err
		}
	}
}

// Addr is [net.Listener]'s.
func (l *Listener) Addr() net.Addr { return &net.UnixAddr{Name: l.path, Net: "unix"} }

// Path is that of the file.
func (l *Listener) Path() string { return l.path }

// There reports whether the file is there and the listener's, or the listener closed.
func (l *Listener) There() bool {
	l.mu.Lock()
	now, closed := l.now, l.closed
	l.mu.Unlock()
	return closed || now.There()
}

// Renew makes the socket again. What was made before, whose file is gone, ends, and with it
// connections that were not accepted.
func (l *Listener) Renew() error {
	next, err := serve(l.path)
	if err != nil {
		return err
	}
	l.mu.Lock()
	if l.closed {
		l.mu.Unlock()
		return next.end()
	}
	before := l.now
	l.now = next
	l.mu.Unlock()
	return before.end()
}

// lookInterval is how often a listener looks whether its file is there.
const lookInterval = time.Second

// Stay makes the socket again whenever its file is found to be gone, until the listener is
// closed: who removes what is in a folder, or all of it, does not think of sockets. It calls folder before that,
// which makes sure of the folder. What comes of it, with nil for success, goes
// to report, where it is not what came of it before.
func (l *Listener) Stay(folder func() error, report func(error)) {
	tick := time.NewTicker(lookInterval)
	defer tick.Stop()
	last := ""
	for {
		select {
		case <-l.done:
			return
		case <-tick.C:
		}
		if l.There() {
			last = ""
			continue
		}
		err := folder()
		if err == nil {
			err = l.Renew()
		}
		if text := fmt.Sprint(err); text != last {
			last = text
			report(err)
		}
	}
}

// Close removes the file and ends the socket. Later calls change nothing.
func (l *Listener) Close() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.closed {
		return nil
	}
	l.closed = true
	close(l.done)
	return l.now.end()
}
