package control

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"net/url"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/nvmeof-go/nvmeof/internal/capture"
	"github.com/nvmeof-go/nvmeof/nvmeof/host"
	"github.com/nvmeof-go/nvmeof/rdmatransport/softroce"
)

const hostName = "nqn.2026-11.org.example:h"

// streaming returns a rig with a namespace in memory, and a host that is connected to it.
func streaming(t *testing.T) (*apiRig, *host.Controller) {
	t.Helper()
	r := newAPIRig(t)
	r.do("POST", "/v1/listeners", `{"id": 1, "address": "ADDR"}`, nil)
	r.do("POST", "/v1/subsystems", `{"nqn": "nqn.2026-11.org.example:s", "allow-any-host": true}`, nil)
	r.do("POST", "/v1/subsystems/nqn.2026-11.org.example:s/namespaces", `{"nsid": 1, "memory": {"size": 1048576}}`, nil)
	dev, err := softroce.Open(softroce.Config{Addr: netip.AddrFrom4([4]byte{127, 94, 2, r.addr.As4()[3]})})
	if err != nil {
		t.Fatal(err)
	}
	h, err := host.New(host.Config{Device: dev})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := errors.Join(h.Close(), dev.Close()); err != nil {
			t.Error(err)
		}
	})
	c, err := h.Connect(t.Context(), host.Options{Traddr: r.addr, HostNQN: hostName, NQN: "nqn.2026-11.org.example:s"})
	if err != nil {
		t.Fatal(err)
	}
	return r, c
}

// reading keeps a namespace busy until the test ends.
func reading(t *testing.T, c *host.Controller) {
	t.Helper()
	n, err := c.Namespace(t.Context(), 1)
	if err != nil {
		t.Fatal(err)
	}
	done, stop := make(chan struct{}), make(chan struct{})
	go func() { // ends with the test
		defer close(done)
		b := make([]byte, 4096)
		for {
			select {
			case <-stop:
				return
			default:
			}
			if _, err := n.ReadAt(b, 8192); err != nil {
				t.Error(err)
				return
			}
			time.Sleep(100 * time.Microsecond)
		}
	}()
	t.Cleanup(func() { close(stop); <-done })
}

func streamed(t *testing.T, r *apiRig, path string, options ...string) (string, error) {
	t.Helper()
	body, err := r.client.Stream(t.Context(), path, options)
	if err != nil {
		return "", err
	}
	defer body.Close()
	var b bytes.Buffer
	_, err = b.ReadFrom(body)
	return b.String(), err
}

// TestCapture: captured packets have names, the filters work, and only one client can capture at a time.
func TestCapture(t *testing.T) {
	r, c := streaming(t)
	reading(t, c)
	var out bytes.Buffer
	text, err := streamed(t, r, "/v1/capture", "count=40", "host="+hostName)
	if err != nil {
		t.Fatal(err)
	}
	sum, err := capture.Copy(&out, strings.NewReader(text), func(c string) { t.Error(c) })
	if err != nil || sum.Packets != 40 || sum.Seen < 40 || sum.Dropped > sum.Seen || out.Len() != len(text) {
		t.Errorf("%+v, %v", sum, err)
	}
	if name := "host " + hostName + ", subsystem nqn.2026-11.org.example:s, controller "; strings.Count(text, name) < 2 {
		t.Errorf("no comment %q", name)
	}
	ctx, cancel := context.WithCancel(t.Context())
	first, err := r.client.Stream(ctx, "/v1/capture", nil)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := streamed(t, r, "/v1/capture"); err == nil || !strings.Contains(err.Error(), "another capture is running") {
		t.Errorf("a second client: %v", err)
	}
	cancel()
	first.Close()
	for deadline := time.Now().Add(20 * time.Second); ; { // until the target knows that the client has gone
		if _, err = streamed(t, r, "/v1/capture", "count=1"); err == nil || time.Now().After(deadline) {
			break
		}
	}
	if err != nil {
		t.Error(err)
	}
}

// TestCaptureDevices: a device that disappears and returns is noted in a capture, which continues.
func TestCaptureDevices(t *testing.T) {
	t.Parallel()
	r := newAPIRig(t)
	r.do("POST", "/v1/listeners", `{"id": 1, "address": "ADDR"}`, nil)
	body, err := r.client.Stream(t.Context(), "/v1/capture", nil)
	if err != nil {
		t.Fatal(err)
	}
	defer body.Close()
	r.do("DELETE", "/v1/listeners/1", "", nil)
	var said []string
	_, err = capture.Copy(io.Discard, body, func(comment string) {
		if said = append(said, comment); len(said) == 1 {
			r.do("POST", "/v1/listeners", `{"id": 1, "address": "ADDR"}`, nil)
			return
		}
		body.Close()
	})
	if len(said) != 2 || !strings.Contains(said[0], "is no longer captured") || !strings.Contains(said[1], "is captured from") {
		t.Errorf("%q, %v", said, err)
	}
}

// TestTrace: traced commands have names and times. A client that stays does not delay the end of the server.
func TestTrace(t *testing.T) {
	r, c := streaming(t)
	reading(t, c)
	text, err := streamed(t, r, "/v1/trace", "count=3", "nsid=1", "slower-than=1ns", "nqn=nqn.2026-11.org.example:s", "host="+hostName)
	if err != nil {
		t.Fatal(err)
	}
	lines := strings.Split(strings.TrimSpace(text), "\n")
	var x TracedCommand
	if err := json.Unmarshal([]byte(lines[0]), &x); err != nil || len(lines) != 3 {
		t.Fatalf("%v: %s", err, text)
	}
	if x.Opcode != "Read" || x.LBA != 16 || x.Blocks != 8 || x.NSID != 1 || !x.OK || x.Status != "success (0/00)" || x.Queue == 0 || x.Host != hostName || x.Latency < x.Fabric || x.Fabric <= 0 {
		t.Errorf("%+v", x)
	}
	at := r.path + "2"
	s := r.serve(at)
	other := NewClient(at)
	defer other.Close()
	body, err := other.Stream(t.Context(), "/v1/trace", nil)
	if err != nil {
		t.Fatal(err)
	}
	defer body.Close()
	if _, err := streamed(t, r, "/v1/trace"); err == nil || !strings.Contains(err.Error(), "another trace is running: end it") {
		t.Errorf("a second client: %v", err)
	}
	if _, err := bufio.NewReader(body).ReadString('\n'); err != nil {
		t.Error(err)
	}
	start := time.Now()
	if err := s.Close(); err != nil || time.Since(start) > 4*time.Second {
		t.Errorf("the server ends after %v: %v", time.Since(start), err)
	}
}

// TestStreamOfRevoked: a stream ends when the token of its client is revoked.
func TestStreamOfRevoked(t *testing.T) {
	r, c := streaming(t)
	reading(t, c)
	asked := 0
	h := HandlerFor(r.Manager, func(*http.Request) Caller {
		if asked++; asked > 4 {
			return Caller{Name: "revoked"}
		}
		return Caller{Name: "a", Role: RoleAdmin}
	})
	w := httptest.NewRecorder()
	h.ServeHTTP(w, httptest.NewRequest("GET", "/v1/trace", nil)) // it ends for no other reason
	if w.Code != http.StatusOK || asked != 5 {
		t.Errorf("%d after %d questions", w.Code, asked)
	}
}

// TestStreamOptions checks the errors of invalid options, and of a capture without a device for it.
func TestStreamOptions(t *testing.T) {
	r := newAPIRig(t)
	for _, c := range []struct{ path, option, want string }{
		{"/v1/capture", "port=4791", "unknown option port"},
		{"/v1/capture", "host=", "option host"},
		{"/v1/capture", "qpn=16777216", "a number from 0 to 16777215"},
		{"/v1/capture", "count=-1", "a number from 0"},
		{"/v1/capture", "count=1", "no device of the target can capture"},
		{"/v1/trace", "slower-than=5", "a duration, as in 5ms"},
		{"/v1/trace", "nsid=x", "a number from 0 to 4294967295"},
	} {
		if _, err := streamed(t, r, c.path, c.option); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s?%s: %v, want %s", c.path, c.option, err, c.want)
		}
	}
	if n := Requests(r.Manager); n[Request{"GET", "/v1/capture", 400}] != 4 || n[Request{"GET", "/v1/trace", 400}] != 2 {
		t.Errorf("requests: %v", n)
	}
}

// TestStalledClient: a client that receives nothing occupies a stream no longer than it requested, so that another
// one can begin.
func TestStalledClient(t *testing.T) {
	t.Parallel()
	ended := make(chan error, 1)
	forever := stream{path: "/v1/forever", query: []streamOption{secondsOption()},
		serve: func(_ context.Context, _ *Manager, _ url.Values, w *streamWriter) error {
			for {
				if err := w.write(make([]byte, 1<<20)); err != nil {
					ended <- err
					return err
				}
			}
		}}
	server := httptest.NewServer(forever.handle(new(Manager), false, func() error { return nil }))
	defer server.Close()
	r, err := http.Get(server.URL + "/v1/forever?seconds=1")
	if err != nil {
		t.Fatal(err)
	}
	defer r.Body.Close() // nothing is read of it
	select {
	case err := <-ended:
		if !errors.Is(err, os.ErrDeadlineExceeded) {
			t.Error(err)
		}
	case <-time.After(15 * time.Second):
		t.Error("the stream goes on")
		server.CloseClientConnections()
	}
}
