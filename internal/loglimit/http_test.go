package loglimit

import (
	"errors"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"
	"go.uber.org/zap/zaptest/observer"
)

// shortage is the error of accept(2) while no descriptor is left.
type shortage struct{}

func (shortage) Error() string   { return "too many open files" }
func (shortage) Timeout() bool   { return false }
func (shortage) Temporary() bool { return true }

// A short listener accepts nothing.
type short struct {
	once   sync.Once
	closed chan struct{}
	failed int
}

func (l *short) Accept() (net.Conn, error) {
	select {
	case <-l.closed:
		return nil, net.ErrClosed
	default:
		l.failed++
		return nil, shortage{}
	}
}
func (l *short) Close() error   { l.once.Do(func() { close(l.closed) }); return nil }
func (l *short) Addr() net.Addr { return &net.TCPAddr{} }

// TestAcceptsNothing: a server that can accept nothing for ten minutes says so above the level info, in few lines, and
// how often.
func TestAcceptsNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		core, logs := observer.New(zapcore.WarnLevel)
		l := &short{closed: make(chan struct{})}
		s := &http.Server{ErrorLog: HTTP(zap.New(core), "console")}
		ended := make(chan error, 1)
		go func() { ended <- s.Serve(l) }() // ends with Close
		time.Sleep(10 * time.Minute)
		if err := s.Close(); err != nil {
			t.Error(err)
		}
		if err := <-ended; !errors.Is(err, http.ErrServerClosed) {
			t.Error(err)
		}
		reported := 0
		for _, e := range logs.All() {
			if !strings.HasPrefix(e.Message, "console: http: Accept error: too many open files") {
				t.Errorf("%v", e)
			}
			n, _ := e.ContextMap()["similar_lines_suppressed"].(uint64)
			reported += 1 + int(n)
		}
		if n := logs.Len(); n < 10*perMinute || n > 11*perMinute || reported < l.failed-60 || reported > l.failed {
			t.Errorf("%d lines, which report %d of %d errors", n, reported, l.failed)
		}
	})
}

// TestHTTPLevels: a client that does not finish its handshake is not worth a line of a log at level info; a panic is an
// error.
func TestHTTPLevels(t *testing.T) {
	core, logs := observer.New(zapcore.DebugLevel)
	s := httptest.NewUnstartedServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { panic("mistake") }))
	s.Config.ErrorLog = HTTP(zap.New(core), "metrics")
	s.StartTLS()
	c, err := net.Dial("tcp", s.Listener.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	_, _ = c.Write([]byte("hello, is this a server?\n"))
	_, _ = io.Copy(io.Discard, c)
	_ = c.Close()
	if r, err := s.Client().Get(s.URL); err == nil {
		t.Errorf("a handler that panics answers %v", r.Status)
		_ = r.Body.Close()
	}
	s.Close()
	levels := map[zapcore.Level]string{zapcore.DebugLevel: "metrics: http: TLS handshake error", zapcore.ErrorLevel: "metrics: http: panic serving"}
	for _, e := range logs.All() {
		if want := levels[e.Level]; want == "" || !strings.HasPrefix(e.Message, want) {
			t.Errorf("%v: %s", e.Level, e.Message)
		}
		delete(levels, e.Level)
	}
	if len(levels) > 0 {
		t.Errorf("not logged: %v", levels)
	}
}
