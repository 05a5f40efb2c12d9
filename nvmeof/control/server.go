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
	"strconv"
	"strings"
	"sync"
	"time"
	"unicode/utf8"

	"go.uber.org/zap"
	"golang.org/x/net/netutil"

	"github.com/nvmeof-go/nvmeof/internal/loglimit"
	"github.com/nvmeof-go/nvmeof/internal/socketfile"
	"github.com/nvmeof-go/nvmeof/nvmeof"
	"github.com/nvmeof-go/nvmeof/nvmeof/config"
)

// Limits of the API.
const (
	maxBody        = 4 << 20
	maxPart        = 256 << 10 // body with a single object such as a host or a namespace: others wait while a change parses it
	maxNoBody      = 64 << 10  // body of a route without one, which is ignored
	maxConnections = 128       // further ones wait in the socket's backlog
)

// A Socket is the unix socket at which a Manager's API is to be served.
type Socket struct {
	listener *socketfile.Listener
	folder   func() error // creates the folder
}

// A Server serves a Manager's API on a unix socket.
type Server struct {
	manager *Manager
	http    *http.Server
	socket  *Socket
	tasks   sync.WaitGroup
	end     context.CancelFunc // ends streams, and calls that wait
}

// Listen creates a socket of mode 0600 at path. Only the user of the process and root can connect to it. A socket
// that no process serves is replaced. If path is a served socket, or another file, that is an error. Calls wait
// until Serve is called, so that the caller can first do other work.
func Listen(path string) (*Socket, error) { return listen(path, "", makeFolder) }

// listen is Listen. If home is not empty, sockets of targets beside that path are removed if no process serves
// them.
func listen(path, home string, folder func(dir string) error) (*Socket, error) {
	dir := filepath.Dir(path)
	prepare := func() error {
		if err := folder(dir); err != nil {
			return noPlace(path, err)
		}
		return nil
	}
	if err := prepare(); err != nil {
		return nil, fmt.Errorf("control socket: %w", err)
	}
	if home != "" {
		clearLeftOver(dir, home)
	}
	l, err := socketfile.NewListener(path)
	if errors.As(err, new(*socketfile.TakenError)) {
		err = &TakenError{path}
	}
	if err != nil {
		return nil, fmt.Errorf("control socket: %w", err)
	}
	return &Socket{l, prepare}, nil
}

func makeFolder(dir string) error { return os.MkdirAll(dir, 0o755) }

// Path returns the path of the socket.
func (s *Socket) Path() string { return s.listener.Path() }

// Close closes the socket, and removes its file unless another process has replaced it. The server of the socket
// calls it. Later calls do nothing.
func (s *Socket) Close() error { return s.listener.Close() }

// Serve serves the API at a socket, which then belongs to the server. If the socket's file is removed, it is
// created again within seconds.
func Serve(m *Manager, at *Socket) *Server {
	ctx, end := context.WithCancel(context.Background())
	s := &Server{manager: m, socket: at, end: end, http: &http.Server{
		BaseContext: func(net.Listener) context.Context { return ctx },
		Handler:     Handler(m), ReadHeaderTimeout: 10 * time.Second, ReadTimeout: time.Minute, IdleTimeout: time.Minute,
		MaxHeaderBytes: 64 << 10, ErrorLog: loglimit.HTTP(m.log, "control socket"),
	}}
	s.tasks.Go(func() { // ends when Close closes the listener
		if err := s.http.Serve(netutil.LimitListener(peerListener{at.listener}, maxConnections)); !errors.Is(err, http.ErrServerClosed) {
			m.log.Error("control socket", zap.Error(err))
		}
	})
	s.tasks.Go(func() { // ends when Close closes the listener
		at.listener.Stay(at.folder, func(err error) {
			if err != nil {
				m.log.Error("control socket: its file was removed, and creating it again failed; retrying", zap.Error(err))
				return
			}
			m.log.Warn("control socket: its file was removed, and was created again", zap.String("path", at.Path()))
		})
	})
	return s
}

// Close ends streams, waits for other calls in progress, and removes the socket.
func (s *Server) Close() error {
	s.end()
	ctx, cancel := context.WithTimeout(context.Background(), s.grace())
	defer cancel()
	err := s.http.Shutdown(ctx)
	if err != nil {
		err = s.http.Close()
	}
	s.tasks.Wait()
	return errors.Join(err, s.socket.Close())
}

// grace returns how long Close waits for calls and idle connections. After [Export] hosts wait meanwhile, and no
// call can change anything.
func (s *Server) grace() time.Duration {
	s.manager.mu.Lock()
	defer s.manager.mu.Unlock()
	if s.manager.closed {
		return 50 * time.Millisecond
	}
	return 5 * time.Second
}

// noPlace returns an error that names path. The file that failed may be a folder above it, or a temporary file.
func noPlace(path string, err error) error {
	var at *os.PathError
	if errors.As(err, &at) {
		err = at.Err
	}
	return fmt.Errorf("%s cannot be created: %w: give a path in a directory that user %d may write to", path, err, os.Geteuid())
}

// A TakenError reports that another target serves the socket.
type TakenError struct{ Path string }

func (e *TakenError) Error() string {
	return fmt.Sprintf("another target uses %s; stop it, or give another path", e.Path)
}

// Handler returns the API of a Manager.
func Handler(m *Manager) http.Handler { return handler(m, nil) }

// handler returns the API of a Manager. by returns the sender of a request; nil: requests come through the socket.
func handler(m *Manager, by func(*http.Request) Caller) http.Handler {
	caller := func(q *http.Request) *Caller {
		if by == nil {
			return nil
		}
		who := by(q)
		return &who
	}
	needed := routeRoles()
	mux := http.NewServeMux()
	var there []string
	for _, r := range routes() {
		there = append(there, r.pattern())
		mux.HandleFunc(r.pattern(), func(w http.ResponseWriter, q *http.Request) {
			answer, err := serveRoute(m, &r, caller(q), needed[r.id], w, q)
			if err != nil {
				m.requests.count(Request{r.method, r.path, writeError(w, explained(m, err))})
				return
			}
			m.requests.count(Request{r.method, r.path, http.StatusOK})
			writeJSON(w, http.StatusOK, encode(answer))
		})
	}
	for _, s := range streams() {
		there = append(there, s.pattern())
		mux.HandleFunc(s.pattern(), func(w http.ResponseWriter, q *http.Request) {
			may := func() error { return caller(q).may(needed[s.id], "") }
			if err := may(); err != nil {
				m.requests.count(Request{q.Method, s.path, writeError(w, err)})
				return
			}
			s.handle(m, by != nil, may)(w, q)
		})
	}
	mux.HandleFunc("/", func(w http.ResponseWriter, q *http.Request) {
		err := caller(q).may(RoleRead, "")
		if err == nil {
			err = &NotFoundError{Kind: "route", Name: q.Method + " " + q.URL.Path, There: there}
		}
		m.requests.count(Request{Code: writeError(w, err)})
	})
	return direct(mux, func(w http.ResponseWriter, q *http.Request, err error) {
		if no := caller(q).may(RoleRead, ""); no != nil {
			err = no
		}
		m.requests.count(Request{Code: writeError(w, err)})
	})
}

func serveRoute(m *Manager, r *route, who *Caller, need Role, w http.ResponseWriter, q *http.Request) (any, error) {
	c := &call{context: q.Context(), manager: m, who: who, path: q.PathValue, sure: q.Method == http.MethodDelete}
	if err := who.may(need, ""); err != nil {
		c.audit(r, q, err)
		return nil, err
	}
	if err := c.read(r, w, q); err != nil {
		return nil, err
	}
	var answer any
	var err error
	if c.query.Has(fileOption) { // it can name any file
		err = who.may(RoleAdmin, "option "+fileOption)
	}
	if err == nil {
		answer, err = r.serve(c)
	}
	c.audit(r, q, err)
	return answer, err
}

// longest returns the maximum length of the body of a route.
func (r *route) longest() int64 {
	switch r.body.(type) {
	case nil:
		return maxNoBody
	case config.Document, config.Subsystem:
		return maxBody
	}
	return maxPart
}

// read reads the options and the body of a request.
func (c *call) read(r *route, w http.ResponseWriter, q *http.Request) error {
	limit := r.longest()
	body, err := io.ReadAll(http.MaxBytesReader(w, q.Body, limit))
	if err != nil {
		return config.Problems{{Text: fmt.Sprintf("the body is longer than %d bytes, or incomplete: %v", limit, err)}}
	}
	if !utf8.Valid(body) {
		return config.Problems{{Text: "the body is not UTF-8"}}
	}
	query, err := url.ParseQuery(q.URL.RawQuery)
	if err != nil {
		return config.Problems{{Text: "options: " + err.Error()}}
	}
	for name, values := range query {
		if !slices.Contains(r.query, name) {
			return config.Problems{{Text: "unknown option " + nvmeof.Printable(name)}}
		}
		if err := checkOption(name, values); err != nil {
			return err
		}
	}
	if body = bytes.TrimSpace(body); r.body != nil && len(body) == 0 {
		body = []byte("{}")
	}
	if r.body != nil && body[0] != '{' { // YAML with many fields takes long to parse
		return config.Problems{{Text: "the body is not a JSON object"}}
	}
	c.query, c.body = query, body
	return nil
}

// checkOption checks the values of an option.
func checkOption(name string, values []string) error {
	value := strings.Join(values, ", ")
	wrong := func(fix string) error {
		return config.Problems{{Text: "option " + name + " is given as " + nvmeof.Printable(value), Fix: fix}}
	}
	switch {
	case len(values) != 1:
		return wrong("give it once")
	case name == fileOption, name == pathOption:
		if err := new(config.Path).UnmarshalText([]byte(value)); err != nil {
			return config.Problems{{Text: "option " + name + ": " + err.Error()}}
		}
	case name == afterOption:
		if _, err := strconv.ParseUint(value, 10, 64); err != nil {
			return wrong("give the number of an event")
		}
	case name == uuidOption:
		if err := new(config.UUID).UnmarshalText([]byte(value)); err != nil {
			return config.Problems{{Text: "option uuid: " + err.Error()}}
		}
	case name == logOption:
		if len(value) > 64 {
			return wrong("give the log of an earlier response")
		}
	case value != "true" && value != "false":
		return wrong("give true or false")
	}
	return nil
}

func writeJSON(w http.ResponseWriter, status int, text []byte) {
	w.Header().Set("Content-Type", "application/json")
	w.Header().Set("Cache-Control", "no-store")
	w.WriteHeader(status)
	_, _ = w.Write(text)
}
