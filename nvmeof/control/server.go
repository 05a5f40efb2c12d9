package control

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"time"
	"unicode/utf8"

	"go.uber.org/zap"
	"golang.org/x/net/netutil"

	"github.com/nvmeof-go/nvmeof/nvmeof"
	"github.com/nvmeof-go/nvmeof/nvmeof/config"
)

// Bounds of what the API takes.
const (
	maxBody        = 4 << 20
	maxConnections = 128 // more wait in the socket's backlog
	maxSocketPath  = 107 // unix(7), without the zero byte
)

// A Socket is where a Manager's API is to be served. Nobody else has it.
type Socket struct {
	listener net.Listener
	path     string
	id       os.FileInfo  // of our socket
	close    func() error // once: a socket that another target has made since then may have the same inode number
}

// A Server serves a Manager's API on a unix socket.
type Server struct {
	manager *Manager
	http    *http.Server
	socket  *Socket
	tasks   sync.WaitGroup
}

// Listen takes path, as a socket of mode 0600 that only the user of the process, and
// root, may open. A socket that nobody serves any more is replaced; one that is served,
// or another file, is an error. Calls wait until the socket is served, so that whoever
// has it can begin with what it is for.
func Listen(path string) (*Socket, error) { return listen(path, "") }

// listen is Listen. Where home is not empty it is the path beside which targets have their
// sockets, of which those go that nobody serves any more.
func listen(path, home string) (*Socket, error) {
	l, err := listenUnix(path, home)
	if err != nil {
		return nil, fmt.Errorf("control socket: %w", err)
	}
	s := &Socket{listener: l, path: path}
	s.id, _ = os.Lstat(path)
	s.close = sync.OnceValue(s.end)
	return s, nil
}

// Path is where the socket is.
func (s *Socket) Path() string { return s.path }

// Close ends the socket and removes it, if it is ours yet. A server that has it closes it.
// Later calls change nothing.
func (s *Socket) Close() error { return s.close() }

func (s *Socket) end() error {
	err := s.listener.Close()
	if errors.Is(err, net.ErrClosed) {
		err = nil
	}
	if now, statErr := os.Lstat(s.path); statErr == nil && s.id != nil && os.SameFile(now, s.id) {
		err = errors.Join(err, os.Remove(s.path))
	}
	return err
}

// Serve begins to serve at a socket, which becomes the server's.
func Serve(m *Manager, at *Socket) *Server {
	s := &Server{manager: m, socket: at, http: &http.Server{
		Handler: Handler(m), ReadHeaderTimeout: 10 * time.Second, ReadTimeout: time.Minute, IdleTimeout: time.Minute,
		MaxHeaderBytes: 64 << 10, ErrorLog: zap.NewStdLog(m.log),
	}}
	s.tasks.Go(func() { // ends when Close closes the listener
		if err := s.http.Serve(netutil.LimitListener(at.listener, maxConnections)); !errors.Is(err, http.ErrServerClosed) {
			m.log.Error("control socket", zap.Error(err))
		}
	})
	return s
}

// Close lets calls that have begun end, and removes the socket.
func (s *Server) Close() error {
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
	defer cancel()
	err := s.http.Shutdown(ctx)
	if err != nil {
		err = s.http.Close()
	}
	s.tasks.Wait()
	return errors.Join(err, s.socket.Close())
}

// listenUnix makes a socket that at no time anybody else could have opened: in a
// folder of our own, from which it is moved.
func listenUnix(path, home string) (net.Listener, error) {
	if len(path) > maxSocketPath {
		return nil, fmt.Errorf("%s has %d characters, and a socket's path %d at most", path, len(path), maxSocketPath)
	}
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		return nil, noPlace(path, err)
	}
	folder, err := os.Open(filepath.Dir(path))
	if err != nil {
		return nil, noPlace(path, err)
	}
	defer folder.Close()
	locked, err := lockFolder(folder) // of two that start, one is the first
	if err != nil {
		return nil, err
	}
	if locked {
		clearLeftOver(folder, home)
	}
	if err := clearStale(path); err != nil {
		return nil, err
	}
	dir, err := os.MkdirTemp(filepath.Dir(path), ".s") // mode 0700; a socket's path is short
	if err != nil {
		return nil, noPlace(path, err)
	}
	defer os.RemoveAll(dir)
	inUse, err := lockTemporary(dir)
	if err != nil {
		return nil, err
	}
	defer inUse.Close()
	l, err := net.ListenUnix("unix", &net.UnixAddr{Name: filepath.Join(dir, "s"), Net: "unix"})
	if err != nil {
		return nil, err
	}
	l.SetUnlinkOnClose(false)
	err = os.Chmod(filepath.Join(dir, "s"), 0o600)
	if err == nil {
		err = os.Rename(filepath.Join(dir, "s"), path)
	}
	if err != nil {
		return nil, errors.Join(err, l.Close())
	}
	return l, nil
}

// noPlace says that the folder of a path cannot have a socket, by its name: what failed may
// have been a folder above it, or a temporary one in it.
func noPlace(path string, err error) error {
	var at *os.PathError
	if errors.As(err, &at) {
		err = at.Err
	}
	return fmt.Errorf("%s cannot be made: %w: give a path in a folder that user %d may write to", path, err, os.Geteuid())
}

// Bounds of the wait for others that make a socket in the same folder, which takes each of
// them a second at most.
const (
	lockWait  = 3 * time.Second
	lockPause = 20 * time.Millisecond
)

// lockFolder keeps others from making sockets in a folder until it is closed. Everybody who
// may read a folder may lock it: one that stays locked for longer than making sockets takes
// is used nevertheless.
func lockFolder(folder *os.File) (locked bool, err error) {
	for end := time.Now().Add(lockWait); ; time.Sleep(lockPause) {
		err := syscall.Flock(int(folder.Fd()), syscall.LOCK_EX|syscall.LOCK_NB)
		switch {
		case err == nil:
			return true, nil
		case !errors.Is(err, syscall.EWOULDBLOCK) && !errors.Is(err, syscall.EINTR):
			return false, err
		case time.Now().After(end):
			return false, nil
		}
	}
}

// A TakenError says that another target has the socket.
type TakenError struct{ Path string }

func (e *TakenError) Error() string {
	return fmt.Sprintf("another target is served at %s; stop it, or give another path", e.Path)
}

// clearStale removes a socket that nobody serves.
func clearStale(path string) error {
	info, err := os.Lstat(path)
	switch {
	case errors.Is(err, os.ErrNotExist):
		return nil
	case err != nil:
		return err
	case info.Mode()&os.ModeSocket == 0:
		return fmt.Errorf("%s is there and is no socket; give another path, or move it away", path)
	}
	c, err := net.DialTimeout("unix", path, time.Second)
	if err == nil {
		_ = c.Close()
		return &TakenError{path}
	}
	if !errors.Is(err, syscall.ECONNREFUSED) {
		return err
	}
	return os.Remove(path)
}

// Handler is the API of a Manager.
func Handler(m *Manager) http.Handler {
	mux := http.NewServeMux()
	for _, r := range routes() {
		mux.HandleFunc(r.pattern(), func(w http.ResponseWriter, q *http.Request) {
			answer, err := serveRoute(m, &r, w, q)
			if err != nil {
				writeError(w, err)
				return
			}
			writeJSON(w, http.StatusOK, encode(answer))
		})
	}
	mux.HandleFunc("/", func(w http.ResponseWriter, q *http.Request) {
		writeError(w, &NotFoundError{Kind: "route", Name: q.Method + " " + q.URL.Path})
	})
	return mux
}

func serveRoute(m *Manager, r *route, w http.ResponseWriter, q *http.Request) (any, error) {
	body, err := io.ReadAll(http.MaxBytesReader(w, q.Body, maxBody))
	if err != nil {
		return nil, config.Problems{{Text: fmt.Sprintf("the body is longer than %d bytes, or broke off: %v", maxBody, err)}}
	}
	if !utf8.Valid(body) {
		return nil, config.Problems{{Text: "the body is not UTF-8"}}
	}
	query, err := url.ParseQuery(q.URL.RawQuery)
	if err != nil {
		return nil, config.Problems{{Text: "options: " + err.Error()}}
	}
	for name, values := range query {
		if !slices.Contains(r.query, name) {
			return nil, config.Problems{{Text: "unknown option " + nvmeof.Printable(name)}}
		}
		if name == fileOption && len(values) == 1 {
			if err := new(config.Path).UnmarshalText([]byte(values[0])); err != nil {
				return nil, config.Problems{{Text: "option file: " + err.Error()}}
			}
			continue
		}
		if len(values) != 1 || values[0] != "true" && values[0] != "false" {
			return nil, config.Problems{{Text: "option " + name + " is given as " + nvmeof.Printable(strings.Join(values, ", ")), Fix: "it is true or false"}}
		}
	}
	if body = bytes.TrimSpace(body); r.body != nil && len(body) == 0 {
		body = []byte("{}")
	}
	if r.body != nil && body[0] != '{' { // YAML takes long to read where it has many fields
		return nil, config.Problems{{Text: "the body is not a JSON object"}}
	}
	return r.serve(&call{manager: m, path: q.PathValue, query: query, body: body, sure: q.Method == http.MethodDelete})
}

func writeJSON(w http.ResponseWriter, status int, text []byte) {
	w.Header().Set("Content-Type", "application/json")
	w.Header().Set("Cache-Control", "no-store")
	w.WriteHeader(status)
	_, _ = w.Write(text)
}
