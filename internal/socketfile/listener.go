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

// A Listener accepts connections on a socket. If the socket's file is removed, it can continue on a new one.
type Listener struct {
	path string

	mu     sync.Mutex
	now    *served
	closed bool
	done   chan struct{} // closed by Close
}

// served is a socket on which connections are accepted.
type served struct {
	*Socket
	accepting net.Listener
}

// NewListener is like [Listen], but returns a Listener.
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
	l, err := net.FileListener(file) // has its own descriptor
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

// Accept implements [net.Listener].
func (l *Listener) Accept() (net.Conn, error) {
	for {
		now := l.current()
		c, err := now.accepting.Accept()
		if err == nil || now == l.current() {
			return c, err
		}
	}
}

// Addr implements [net.Listener].
func (l *Listener) Addr() net.Addr { return &net.UnixAddr{Name: l.path, Net: "unix"} }

// Path returns the path of the file.
func (l *Listener) Path() string { return l.path }

// There reports whether the file exists and is the listener's. It also returns true if the listener is closed.
func (l *Listener) There() bool {
	l.mu.Lock()
	now, closed := l.now, l.closed
	l.mu.Unlock()
	return closed || now.There()
}

// Renew makes the socket again. The previous socket, whose file is gone, is closed with the connections that were not
// accepted.
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

// lookInterval is how often a listener checks that its file exists.
const lookInterval = time.Second

// Stay makes the socket again whenever its file is gone, until the listener is closed: a user who empties a folder does
// not think of the sockets in it. It first calls folder, which must ensure that the folder exists. It calls report with
// each result that differs from the previous one; nil means success.
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

// Close removes the file and closes the socket. Later calls do nothing.
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
