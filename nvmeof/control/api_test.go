package control

import (
	"bytes"
	"context"
	"errors"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/nvmeof-go/nvmeof/nvmeof/config"
)

// An apiRig is a rig with an API at a real unix socket.
type apiRig struct {
	*rig
	path   string
	client *Client
}

// serve serves the API at another socket.
func (r *apiRig) serve(path string) *Server {
	r.t.Helper()
	at, err := Listen(path)
	if err != nil {
		r.t.Fatal(err)
	}
	return Serve(r.Manager, at)
}

func newAPIRig(t *testing.T, change ...func(*Config)) *apiRig {
	t.Helper()
	r := &apiRig{rig: newRig(t, change...)}
	r.path = filepath.Join(r.dir, "run", "t.sock")
	s := r.serve(r.path)
	r.client = NewClient(r.path)
	t.Cleanup(func() {
		r.client.Close()
		if err := s.Close(); err != nil {
			t.Error(err)
		}
		if _, err := os.Lstat(r.path); err == nil {
			t.Error("the socket stays")
		}
	})
	return r
}

// do makes a call that must succeed.
func (r *apiRig) do(method, path, body string, answer any, options ...string) {
	r.t.Helper()
	body = strings.NewReplacer("ADDR", r.addr.String(), "DIR", r.dir).Replace(body)
	if err := r.client.Do(r.t.Context(), method, path, options, []byte(body), answer); err != nil {
		r.t.Fatalf("%s %s %s: %v", method, path, body, err)
	}
}

// TestAPI builds a target call by call.
func TestAPI(t *testing.T) {
	r := newAPIRig(t)
	var result Result
	r.do("POST", "/v1/listeners", `{"id": 1, "address": "ADDR"}`, &result)
	if len(result.Changes) != 1 || result.Changes[0].Text != "add listener 1" {
		t.Errorf("result %+v", result)
	}
	r.do("PUT", "/v1/listeners/1/ana-groups", `{"group": 2, "state": "non-optimized"}`, nil)
	r.do("POST", "/v1/subsystems", `{"nqn": "a"}`, nil)
	r.do("POST", "/v1/subsystems/a/hosts", `{"nqn": "h1"}`, nil)
	r.do("POST", "/v1/subsystems/a/hosts", `{"nqn": "h2", "access": "read"}`, nil)
	r.do("POST", "/v1/subsystems/a/namespaces", `{"nsid": 1, "file": {"path": "DIR/a1", "size": "1MiB"}}`, nil)
	r.do("POST", "/v1/subsystems/a/namespaces", `{"nsid": 2, "memory": {"size": 1048576}, "ana-group": 2}`, &result, "dry-run")
	if !result.DryRun || len(result.Changes) != 1 || len(r.Document().Subsystems[0].Namespaces) != 1 {
		t.Errorf("dry run: %+v", result)
	}
	r.do("POST", "/v1/subsystems/a/namespaces", `{"nsid": 2, "memory": {"size": 1048576}, "ana-group": 2}`, nil)
	r.do("POST", "/v1/referrals", `{"address": "192.0.2.9"}`, nil)
	r.wantState(r.doc(first))

	var doc config.Document
	r.do("GET", "/v1/config", "", &doc)
	if string(doc.YAML()) != string(r.doc(first).YAML()) {
		t.Errorf("config\n%s", doc.YAML())
	}
	var s config.Subsystem
	r.do("GET", "/v1/subsystems/a", "", &s)
	var n config.Namespace
	r.do("GET", "/v1/subsystems/a/namespaces/2", "", &n)
	var hosts []*config.Host
	r.do("GET", "/v1/subsystems/a/hosts", "", &hosts)
	if s.NQN != "a" || n.Memory.Size != 1<<20 || len(hosts) != 2 || hosts[1].Access != "read" {
		t.Errorf("subsystem %+v, namespace %+v, %d hosts", s, n, len(hosts))
	}
}

// TestAPIChanges changes a target, and removes its objects.
func TestAPIChanges(t *testing.T) {
	r := newAPIRig(t)
	r.apply(r.doc(first))
	var result Result
	r.do("PATCH", "/v1/subsystems/a/namespaces/2", `{"read-only": true}`, nil)
	r.do("PATCH", "/v1/subsystems/a/hosts/h2", `{"access": null, "namespaces": [{"nsid": 1, "access": "none"}]}`, nil)
	r.do("PATCH", "/v1/subsystems/a", `{"allow-any-host": true}`, &result)
	if len(result.Warnings) != 1 {
		t.Errorf("warnings %q", result.Warnings)
	}
	r.do("POST", "/v1/subsystems/a/namespaces/2/pause", `{"limit": "5s"}`, nil)
	r.do("POST", "/v1/subsystems/a/namespaces/2/resume", "", nil)
	var status Status
	r.do("GET", "/v1/status", "", &status)
	if status.PID != os.Getpid() || status.Namespaces != 2 || status.Waiting == nil {
		t.Errorf("status %+v", status)
	}
	r.do("POST", "/v1/keys/reread", "", nil)
	r.do("DELETE", "/v1/referrals/192.0.2.9", "", nil)
	r.do("DELETE", "/v1/subsystems/a/namespaces/1", "", nil)
	r.do("DELETE", "/v1/subsystems/a/hosts/h1", "", nil)
	r.do("PATCH", "/v1/subsystems/a", `{"listeners": [1]}`, nil)
	if err := r.client.Do(t.Context(), "DELETE", "/v1/listeners/1", nil, nil, nil); err == nil || !strings.Contains(err.Error(), "subsystem a is exposed on listener 1 only; first set") {
		t.Errorf("%v: the subsystem would be everywhere", err)
	}
	r.do("DELETE", "/v1/subsystems/a", "", nil)
	r.do("DELETE", "/v1/listeners/1", "", nil)
	if got := r.observe(); got != "" {
		t.Errorf("the target still has\n%s", got)
	}
	r.do("PUT", "/v1/config", string(r.doc(first).JSON()), &result)
	r.wantState(r.doc(first))
}

// TestAPIErrors: every refusal has a message and a code, and changes nothing.
func TestAPIErrors(t *testing.T) {
	t.Parallel()
	r := newAPIRig(t)
	r.apply(r.doc(first))
	for _, c := range []struct {
		method, path, body string
		code               Code
		want               string
	}{
		{"GET", "/v1/nothing", "", CodeNotFound, `route "GET /v1/nothing" does not exist`},
		{"PUT", "/v1/status", "", CodeNotFound, `route "PUT /v1/status" does not exist; did you mean GET /v1/status?`},
		{"GET", "/v1/subsystem", "", CodeNotFound, "did you mean GET /v1/subsystems?"},
		{"GET", "/v1/subsystems/b", "", CodeNotFound, "subsystem b does not exist; did you mean a?"},
		{"GET", "/v1/subsystems/a/hosts/h9", "", CodeNotFound, "host h9 does not exist; did you mean h1?"},
		{"DELETE", "/v1/listeners/9", "", CodeNotFound, "listener 9 does not exist; there is 1"},
		{"DELETE", "/v1/subsystems/a/controllers/7", "", CodeNotFound, "controller 7 does not exist; there is none"},
		{"DELETE", "/v1/subsystems/a/controllers/x", "", CodeInvalid, `id "x" is not a number`},
		{"POST", "/v1/subsystems", `{"nqn": "a"}`, CodeExists, "subsystem a exists already; change it with set"},
		{"POST", "/v1/subsystems", `{"nqm": "a"}`, CodeInvalid, "1:2: unknown field nqm; did you mean nqn?"},
		{"POST", "/v1/subsystems", "", CodeInvalid, "1:1: nqn is missing"},
		{"POST", "/v1/subsystems", "[", CodeInvalid, "the body is not a JSON object"},
		{"PUT", "/v1/config", "version: 1\n", CodeInvalid, "the body is not a JSON object"},
		{"PATCH", "/v1/subsystems/a", `{"nqn": "b"}`, CodeInvalid, "subsystem a cannot be renamed to b; remove it, and add another"},
		{"POST", "/v1/subsystems/a/namespaces", `{"nsid": 3, "file": {"path": "DIR/../x"}}`, CodeInvalid, "is not in its shortest form"},
		{"POST", "/v1/subsystems/a/namespaces", `{"nsid": 3, "file": {"path": "DIR/a1"}}`, CodeInvalid, "is already exported by subsystems[0].namespaces[0]"},
		{"POST", "/v1/subsystems/a/namespaces", `{"nsid": 3, "file": {"path": "DIR/none"}}`, CodeFailed, "everything is as it was before"},
		{"POST", "/v1/subsystems/a/namespaces/9/pause", `{}`, CodeNotFound, "namespace 9 does not exist; there is 1"},
		{"POST", "/v1/subsystems/a/namespaces/999/clear-fault", "", CodeNotFound, "namespace 999 does not exist; there is 1, 2"},
		{"DELETE", "/v1/subsystems/a/namespaces/99/reservation", "", CodeNotFound, "namespace 99 does not exist; there is 1"},
		{"POST", "/v1/subsystems/nqn.b/namespaces/1/resume", "", CodeNotFound, "subsystem nqn.b does not exist; there is a"},
		{"POST", "/v1/subsystems/a/namespaces/1/resume", "", CodeFailed, "is not paused"},
		{"PUT", "/v1/listeners/1/ana-groups", `{"group": 1, "state": "live"}`, CodeInvalid, "live is not known"},
		{"PUT", "/v1/config", `{"version": 1, "limits": {"shards": 3}}`, CodeRestart, "cannot be changed while the target runs"},
		{"PUT", "/v1/config", `{"version": 9}`, CodeInvalid, "1:13: version: 9 is not a version of this format"},
		{"PUT", "/v1/config?farce=true", `{"version": 1}`, CodeInvalid, "unknown option farce"},
		{"PUT", "/v1/config", `{"x": ` + strings.Repeat("[", 1<<20), CodeInvalid, "more than 32 nested lists and objects"},
		{"PUT", "/v1/config", `{"version": 1, "x": "` + strings.Repeat("x", 5<<20) + `"}`, CodeInvalid, "the body is longer than 4194304 bytes"},
		{"POST", "/v1/config/save", "", CodeFailed, "not started with --config"},
	} {
		body := strings.ReplaceAll(c.body, "DIR", r.dir)
		err := r.client.Do(t.Context(), c.method, c.path, nil, []byte(body), nil)
		var e *Error
		if !errors.As(err, &e) || e.Code != c.code || !strings.Contains(e.Message, c.want) {
			t.Errorf("%s %s %.60s: %v, want %s: %s", c.method, c.path, c.body, err, c.code, c.want)
		}
	}
	r.wantState(r.doc(first))
}

// TestAPIStates: a request that is only refused in the present state of the target is a conflict, and not a server
// error.
func TestAPIStates(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	key := filepath.Join(r.dir, "key")
	if err := os.WriteFile(key, []byte("DHHC-1:00:ia6zGodOr4SEG0Zzaw398rpY0wqipUWj4jWjUh4HWUz6aQ2n:\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	doc := strings.NewReplacer("memory:\n          size: 1MiB", "file:\n          path: DIR/none", "- nqn: h1\n", "- nqn: h1\n        key-file: DIR/key\n").Replace(first)
	if _, err := r.Apply(r.doc(doc), Options{Wait: true}); err != nil {
		t.Fatal(err)
	}
	api := Handler(r.Manager)
	call := func(method, path, body string, want int, text string) {
		t.Helper()
		w := httptest.NewRecorder()
		api.ServeHTTP(w, httptest.NewRequest(method, path, strings.NewReader(body)))
		if got := w.Body.String(); w.Code != want || !strings.Contains(got, text) {
			t.Errorf("%s %s: %d %s, want %d, %s", method, path, w.Code, got, want, text)
		}
	}
	one, two := "/v1/subsystems/a/namespaces/1/", "/v1/subsystems/a/namespaces/2/"
	call("POST", one+"resume", "", http.StatusConflict, "it is not paused")
	call("POST", one+"clear-fault", "", http.StatusConflict, "has not failed")
	call("POST", one+"pause", `{"limit": "26s"}`, http.StatusBadRequest, "limit: 26s: want more than 0s and at most 25s")
	call("POST", one+"pause", "", http.StatusOK, "{}")
	call("POST", one+"pause", "", http.StatusConflict, "is paused already")
	call("POST", one+"resume", "", http.StatusOK, "{}")
	for _, verb := range []string{"pause", "resume", "clear-fault"} {
		call("POST", two+verb, "", http.StatusConflict, "it waits for its store: ")
	}
	call("POST", "/v1/subsystems/a/namespaces/9/resume", "", http.StatusNotFound, "namespace 9 does not exist")
	call("GET", "/v1/reservations", "", http.StatusOK, "[]")
	call("DELETE", one+"reservation", "", http.StatusOK, "{}")
	call("DELETE", one+"reservation/h1", "", http.StatusNotFound, "registrant h1 does not exist; there is none")
	call("DELETE", one+"reservation/", "", http.StatusNotFound, "")
	call("DELETE", two+"reservation", "", http.StatusConflict, "it waits for its store: ")
	call("DELETE", one+"reservation?save=true", "", http.StatusBadRequest, "save")
	if err := os.Remove(key); err != nil {
		t.Fatal(err)
	}
	call("POST", "/v1/keys/reread", "", http.StatusConflict, "no key was read again, and the previous keys are kept: ")
	if err := r.Close(); err != nil {
		t.Error(err)
	}
	call("DELETE", "/v1/subsystems/a", "", http.StatusServiceUnavailable, "the target is stopping")
}

// TestManyCalls: many concurrent calls are all answered, and changes are made one at a time.
func TestManyCalls(t *testing.T) {
	r := newAPIRig(t)
	r.apply(r.doc(first))
	var wait sync.WaitGroup
	enter, leave := atOnce(t)
	calls := 100
	if *long {
		calls = 400
	}
	for i := range calls {
		wait.Go(func() {
			enter()
			defer leave()
			method, path, body := "GET", "/v1/config", ""
			if i%4 == 0 {
				method, path, body = "POST", "/v1/subsystems", `{"nqn": "n`+itoa(i)+`"}`
			}
			if err := r.client.Do(context.Background(), method, path, nil, []byte(body), nil); err != nil {
				t.Error(err)
			}
		})
	}
	wait.Wait()
	if n := len(r.Document().Subsystems); n != 1+calls/4 {
		t.Errorf("%d subsystems, want %d", n, 1+calls/4)
	}
}

// TestSocket checks the permissions of a socket, and what happens to an existing one.
func TestSocket(t *testing.T) {
	r := newAPIRig(t)
	info, err := os.Lstat(r.path)
	if err != nil || info.Mode() != os.ModeSocket|0o600 {
		t.Fatalf("mode %v, %v", info.Mode(), err)
	}
	if _, err := Listen(r.path); err == nil || !strings.Contains(err.Error(), "another target uses "+r.path) {
		t.Errorf("%v beside another", err)
	}
	file := filepath.Join(r.dir, "file")
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := Listen(file); err == nil || !strings.Contains(err.Error(), "exists and is not a socket") {
		t.Errorf("%v where a file is", err)
	}
	stale := filepath.Join(r.dir, "stale")
	l, err := net.ListenUnix("unix", &net.UnixAddr{Name: stale, Net: "unix"})
	if err != nil {
		t.Fatal(err)
	}
	l.SetUnlinkOnClose(false)
	_ = l.Close()
	var connect *ConnectError
	if err := NewClient(stale).Do(t.Context(), "GET", "/v1/status", nil, nil, nil); !errors.As(err, &connect) || !strings.Contains(err.Error(), "no target responds at") {
		t.Errorf("%v where nobody serves", err)
	}
	s := r.serve(stale)
	c := NewClient(stale)
	if err := c.Do(t.Context(), "GET", "/v1/status", nil, nil, nil); err != nil {
		t.Error(err)
	}
	c.Close()
	if err := s.Close(); err != nil {
		t.Error(err)
	}
}

func TestDefaultSocket(t *testing.T) {
	for _, c := range []struct {
		env  map[string]string
		uid  int
		want string
	}{
		{nil, 0, "/run/nvmeof/target.sock"},
		{map[string]string{"XDG_RUNTIME_DIR": "/run/user/0"}, 0, "/run/nvmeof/target.sock"},
		{map[string]string{"XDG_RUNTIME_DIR": "/run/user/7"}, 7, "/run/user/7/nvmeof/target.sock"},
		{map[string]string{"HOME": "/home/x"}, 7, "/home/x/.local/state/nvmeof/target.sock"},
		{map[string]string{"RUNTIME_DIRECTORY": "/run/nvmeof", "XDG_RUNTIME_DIR": "/run/user/7"}, 7, "/run/nvmeof/target.sock"},
		{map[string]string{"NVMEOF_SOCKET": "/x", "RUNTIME_DIRECTORY": "/run/nvmeof"}, 7, "/x"},
	} {
		if got := DefaultSocket(func(n string) string { return c.env[n] }, c.uid); got != c.want {
			t.Errorf("%v, %d: %s, want %s", c.env, c.uid, got, c.want)
		}
	}
}

// TestSlowCaller: a client that never completes its request delays neither other clients nor the end of the server.
func TestSlowCaller(t *testing.T) {
	t.Parallel()
	r := newAPIRig(t)
	c, err := net.Dial("unix", r.path)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	if _, err := c.Write([]byte("PUT /v1/config HTTP/1.1\r\nHost: x\r\nContent-Length: 1000000000\r\n\r\n{")); err != nil {
		t.Fatal(err)
	}
	r.do("GET", "/v1/status", "", nil)
	if _, err := c.Write(bytes.Repeat([]byte(" "), maxBody+1)); err != nil {
		t.Fatal(err)
	}
	_ = c.SetReadDeadline(time.Now().Add(10 * time.Second))
	b := make([]byte, 100)
	n, err := c.Read(b)
	if err != nil || !strings.Contains(string(b[:n]), itoa(http.StatusBadRequest)) {
		t.Errorf("%q, %v", b[:n], err)
	}
}

// TestOptions: with an option that is not understood, a dry run does not become a change.
func TestOptions(t *testing.T) {
	r := newAPIRig(t)
	for query, ok := range map[string]bool{
		"dry-run=true": true, "dry-run=1": false, "dry-run": false, "dry-run=True": false, "dry-run=true&dry-run=false": false,
		"dry_run=true": false, "dry-run=true;x": false, "save=false&dry-run=true": true,
	} {
		w := httptest.NewRecorder()
		Handler(r.Manager).ServeHTTP(w, httptest.NewRequest("POST", "/v1/subsystems?"+query, strings.NewReader(`{"nqn": "a"}`)))
		if (w.Code == http.StatusOK) != ok || len(r.Document().Subsystems) > 0 {
			t.Errorf("%s: %d %s", query, w.Code, w.Body)
		}
	}
}
