package control

import (
	"errors"
	"net"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/nvmeof-go/nvmeof/nvmeof"
)

// An Operation is a request that changes something of a target, and its result. It has no keys: a document has only
// the names of their files.
type Operation struct {
	Time    time.Time `json:"time"`
	By      Peer      `json:"by"`
	Name    string    `json:"operation"` // operationId of the OpenAPI document, or rereadKeys for a signal
	Method  string    `json:"method,omitempty"`
	Path    string    `json:"path,omitempty"`
	Options string    `json:"options,omitempty"`
	// Changes are the first 64 changes that were made. Count is the number of all.
	Changes []Step `json:"changes,omitempty"`
	Count   int    `json:"change-count,omitempty"`
	Result  string `json:"result"` // ok, or a [Code]
	Error   string `json:"error,omitempty"`
	// Before is how many operations of the same [Caller] were refused for its role since the last one that was
	// reported, and were not reported themselves.
	Before int `json:"refused-before,omitempty"`
}

// A Peer is the sender of a request: a process at the other end of the control socket, as the kernel knows it
// (SO_PEERCRED), a client with a token, or a signal.
type Peer struct {
	Signal string `json:"signal,omitempty"`
	// Token is the name of the token of a [Caller], and Address the address of its client.
	Token   string `json:"token,omitempty"`
	Address string `json:"address,omitempty"`
	*Process
	User string `json:"user,omitempty"` // empty: unknown
}

// A Process is a process of this machine, with its user and group.
type Process struct {
	UID int `json:"uid"`
	GID int `json:"gid"`
	PID int `json:"pid"`
}

const (
	maxAudited = 64   // number of changes that are listed
	maxAsked   = 1024 // limit of the path, and of the options, in bytes
)

// audit reports an operation that was carried out or refused to Config.Audit. It leaves out requests that only
// read, and dry runs.
func (c *call) audit(r *route, q *http.Request, err error) {
	if c.manager.cfg.Audit == nil || r.method == http.MethodGet || c.option("dry-run") {
		return
	}
	by := peerOf(q)
	now, before := time.Now(), 0
	if c.who != nil {
		by = Peer{Token: c.who.Name, Address: c.who.Address}
		if errors.As(err, new(*ForbiddenError)) {
			var listed bool
			if before, listed = c.manager.refusals.add(c.who.Name, now); !listed {
				return
			}
		}
	}
	o := Operation{Time: now, By: by, Name: r.id, Method: q.Method, Path: asked(q.URL.Path), Options: asked(q.URL.RawQuery),
		Changes: c.changes[:min(len(c.changes), maxAudited)], Count: len(c.changes), Before: before}
	o.end(err)
	c.manager.cfg.Audit(o)
}

// asked returns a part of a request for the audit: shortened, and with keys concealed.
func asked(s string) string {
	if text, err := url.QueryUnescape(s); err == nil && nvmeof.Concealed(text) != text {
		s = nvmeof.Concealed(text)
	}
	if len(s) > maxAsked {
		s = strings.ToValidUTF8(s[:maxAsked], "") + "..."
	}
	return s
}

// AuditSignal reports an operation that a signal requested to Config.Audit.
func AuditSignal(m *Manager, signal, name string, err error) {
	if m.cfg.Audit != nil {
		o := Operation{Time: time.Now(), By: Peer{Signal: signal}, Name: name}
		o.end(err)
		m.cfg.Audit(o)
	}
}

// end sets the result of the operation.
func (o *Operation) end(err error) {
	o.Result = "ok"
	if err != nil {
		code, _ := classify(err)
		o.Result, o.Error = string(code), nvmeof.Concealed(err.Error())
	}
}

// A peerListener accepts connections whose remote address describes the process at the other end. The HTTP server
// passes nothing else of the connection on.
type peerListener struct{ net.Listener }

func (l peerListener) Accept() (net.Conn, error) {
	c, err := l.Listener.Accept()
	if err != nil {
		return nil, err
	}
	return peerConn{c, processOf(c)}, nil
}

type peerConn struct {
	net.Conn
	peer processAddr
}

func (c peerConn) RemoteAddr() net.Addr { return c.peer }

// A processAddr is a process in the form of an address: UID:GID:PID.
type processAddr string

func (processAddr) Network() string  { return "unix" }
func (a processAddr) String() string { return string(a) }

// processOf asks the kernel which process has connected.
func processOf(c net.Conn) processAddr {
	s, ok := c.(syscall.Conn)
	if !ok {
		return ""
	}
	raw, err := s.SyscallConn()
	if err != nil {
		return ""
	}
	var a processAddr
	_ = raw.Control(func(fd uintptr) {
		if u, err := syscall.GetsockoptUcred(int(fd), syscall.SOL_SOCKET, syscall.SO_PEERCRED); err == nil {
			a = processAddr(strings.Join([]string{strconv.FormatUint(uint64(u.Uid), 10), strconv.FormatUint(uint64(u.Gid), 10), strconv.Itoa(int(u.Pid))}, ":"))
		}
	})
	return a
}

// peerOf returns the sender of a request.
func peerOf(q *http.Request) Peer {
	parts := strings.Split(q.RemoteAddr, ":")
	if len(parts) != 3 {
		return Peer{}
	}
	var n [3]int
	for i := range n {
		var err error
		if n[i], err = strconv.Atoi(parts[i]); err != nil {
			return Peer{}
		}
	}
	return Peer{Process: &Process{UID: n[0], GID: n[1], PID: n[2]}}
}
