package console

import (
	"context"
	"errors"
	"html/template"
	"net"
	"net/http"
	"net/netip"
	"path"
	"strconv"
	"strings"
	"time"

	"go.uber.org/zap"

	"github.com/nvmeof-go/nvmeof/cmd/nvmeof/internal/token"
	"github.com/nvmeof-go/nvmeof/internal/loglimit"
	"github.com/nvmeof-go/nvmeof/nvmeof/config"
	"github.com/nvmeof-go/nvmeof/nvmeof/control"
	"github.com/nvmeof-go/nvmeof/nvmeof/events"
)

// Config is the configuration of the console.
type Config struct {
	Manager *control.Manager
	Events  *events.Log // nil: none
	Log     *zap.Logger
	Version string // of the program
}

// A server is a running console.
type server struct {
	cfg      Config
	socket   *Socket
	failed   token.Limit
	sessions sessions
	api      http.Handler
	pages    map[string]*template.Template
	readings readings
	now      func() time.Time
}

// endTime is how long responses in progress may take when the console ends. It is short because hosts wait during a
// takeover, and a client that has sent only half of a request could delay them for this time.
const endTime = 50 * time.Millisecond

// Serve serves at a socket until end is called, which closes the socket.
func Serve(at *Socket, cfg Config) (end func()) {
	ctx, cancel := context.WithCancel(context.Background())
	h := &http.Server{
		Handler: newServer(at, cfg).handler(), BaseContext: func(net.Listener) context.Context { return ctx },
		ReadHeaderTimeout: 5 * time.Second, ReadTimeout: 30 * time.Second, WriteTimeout: time.Minute, IdleTimeout: time.Minute, MaxHeaderBytes: 16 << 10,
		ErrorLog: loglimit.HTTP(cfg.Log, "console"), Protocols: new(http.Protocols),
	}
	h.Protocols.SetHTTP1(true)
	if at.certificate != nil {
		at.certificate.begin(cfg.Log)
		h.TLSConfig = at.certificate.config()
	}
	ended := make(chan struct{})
	go func() { // ends when end closes the listener
		defer close(ended)
		if err := serve(h, at.listener); !errors.Is(err, http.ErrServerClosed) {
			cfg.Log.Error("console", zap.Error(err))
		}
	}()
	return func() {
		cancel()
		wait, cancel := context.WithTimeout(context.Background(), endTime)
		defer cancel()
		if h.Shutdown(wait) != nil {
			_ = h.Close()
		}
		<-ended
	}
}

func serve(h *http.Server, l net.Listener) error {
	if h.TLSConfig != nil {
		return h.ServeTLS(l, "", "")
	}
	return h.Serve(l)
}

func newServer(at *Socket, cfg Config) *server {
	s := &server{cfg: cfg, socket: at, now: time.Now, pages: parsePages()}
	s.api = control.HandlerFor(cfg.Manager, callerOf)
	return s
}

// callerKey is the context key of a function that returns the current [control.Caller] of a request.
type callerKey struct{}

// callerOf returns the sender of a request; the zero value has no rights.
func callerOf(r *http.Request) control.Caller {
	if now, known := r.Context().Value(callerKey{}).(func() control.Caller); known {
		return now()
	}
	return control.Caller{}
}

func withCaller(r *http.Request, now func() control.Caller) *http.Request {
	return r.WithContext(context.WithValue(r.Context(), callerKey{}, now))
}

// handler returns the handler of all requests.
func (s *server) handler() http.Handler {
	mux := http.NewServeMux()
	s.servePages(mux)
	pages := http.NewCrossOriginProtection().Handler(short(mux)) // not for the API: its clients have no cookies that a cross-origin request could use
	return s.guard(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if p := r.URL.EscapedPath(); strings.HasPrefix(p, "/v1/") || uncleanPath(p) { // a mux would redirect some to other paths
			s.serveAPI(w, r)
			return
		}
		pages.ServeHTTP(w, r)
	}))
}

// uncleanPath reports whether a path has an empty element, "." or "..". A mux redirects such a path to the cleaned one,
// which may be a path of the API, and clients follow with the same method.
func uncleanPath(p string) bool { return p != "/" && path.Clean(p) != strings.TrimSuffix(p, "/") }

// short limits the size of request bodies for the pages. A multipart body is read whenever a value of the query is
// read, whatever the method: 32 MiB into memory, and the rest into files.
func short(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		r.Body = http.MaxBytesReader(w, r.Body, maxForm)
		next.ServeHTTP(w, r)
	})
}

// guard rejects requests for names that are not this machine's, and sets the security headers for browsers.
func (s *server) guard(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		h := w.Header()
		h.Set("Content-Security-Policy", "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; form-action 'self'; base-uri 'none'; frame-ancestors 'none'")
		h.Set("X-Frame-Options", "DENY")
		h.Set("X-Content-Type-Options", "nosniff")
		h.Set("Referrer-Policy", "no-referrer")
		h.Set("Cross-Origin-Opener-Policy", "same-origin")
		h.Set("Cross-Origin-Resource-Policy", "same-origin")
		h.Set("Cache-Control", "no-store")
		if !s.named(r.Host) {
			refuse(w, http.StatusMisdirectedRequest, "this is not a name of this target: use its address, or a name in its certificate")
			return
		}
		next.ServeHTTP(w, r)
	})
}

// named reports whether the Host header names this target. It defends against DNS rebinding: a site whose own name
// resolves to this address can send neither the address itself nor a name in the certificate.
func (s *server) named(host string) bool {
	if name, _, err := net.SplitHostPort(host); err == nil {
		host = name
	}
	if _, err := netip.ParseAddr(strings.Trim(host, "[]")); err == nil || strings.EqualFold(host, "localhost") {
		return true
	}
	return s.socket.certificate != nil && s.socket.certificate.covers(host)
}

// serveAPI serves a program, which sends its token.
func (s *server) serveAPI(w http.ResponseWriter, r *http.Request) {
	scheme, text, _ := strings.Cut(r.Header.Get("Authorization"), " ")
	if !strings.EqualFold(scheme, "Bearer") || text == "" {
		w.Header().Set("WWW-Authenticate", "Bearer")
		refuse(w, http.StatusUnauthorized, "a token is missing: send Authorization: Bearer TOKEN; nvmeof token create creates one")
		return
	}
	e, ok := s.admit(w, r, strings.TrimSpace(text))
	if !ok {
		return
	}
	s.api.ServeHTTP(w, withCaller(r, func() control.Caller {
		if e, ok, err := s.socket.tokens.Find(e.Hash); ok && err == nil {
			return caller(e, r)
		}
		return control.Caller{Name: e.Name} // the token was revoked during a stream
	}))
}

func caller(e token.Entry, r *http.Request) control.Caller {
	return control.Caller{Name: e.Name, Role: e.Role, Address: addressOf(r).String()}
}

func addressOf(r *http.Request) netip.Addr {
	at, _ := netip.ParseAddrPort(r.RemoteAddr)
	return at.Addr().Unmap()
}

// admit returns the entry of a token, or sends an error response. A valid token is accepted however many attempts from
// the same address have failed, so that a client cannot lock others out.
func (s *server) admit(w http.ResponseWriter, r *http.Request, text string) (token.Entry, bool) {
	e, ok, err := s.socket.tokens.Find(token.HashOf(text))
	if ok {
		return e, true
	}
	code, why := s.refusal(addressOf(r), err)
	if code == http.StatusTooManyRequests {
		w.Header().Set("Retry-After", strconv.Itoa(int(retryTime/time.Second)))
	}
	refuse(w, code, why)
	return token.Entry{}, false
}

// retryTime is the Retry-After of a response to an address with too many failures.
const retryTime = 10 * time.Second

// refusal counts and logs an unknown token, and returns the response.
func (s *server) refusal(from netip.Addr, err error) (code int, why string) {
	now := s.now()
	if s.failed.Wait(from, now) > 0 {
		return http.StatusTooManyRequests, "too many refused tokens from this address: try again later"
	}
	s.failed.Failed(from, now)
	if err != nil {
		s.cfg.Log.Error("console: all tokens are refused", zap.Error(err))
		return http.StatusServiceUnavailable, "the target cannot read its tokens; its log has the reason"
	}
	s.cfg.Log.Warn("console: a token was refused", zap.Stringer("from", from))
	return http.StatusUnauthorized, "unknown token: it was revoked, or is incomplete"
}

// refuse sends an error response in the form of the API.
func refuse(w http.ResponseWriter, code int, why string) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(code)
	_, _ = w.Write(config.JSON(struct {
		Error control.Error `json:"error"`
	}{control.Error{Code: control.CodeForbidden, Message: why}}))
}
