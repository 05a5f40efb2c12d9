package control

import (
	"context"
	"flag"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// TestSocketIsOurs (row 115): other users cannot open the socket.
func TestSocketIsOurs(t *testing.T) {
	r := newAPIRig(t)
	info, err := os.Lstat(r.path)
	if err != nil || info.Mode().Perm() != 0o600 || info.Mode()&os.ModeSocket == 0 {
		t.Errorf("socket %v, %v, want mode 0600", info.Mode(), err)
	}
}

// atOnce limits the number of clients to the descriptors of this process, which has both ends of each connection.
func atOnce(t *testing.T) (enter, leave func()) {
	t.Helper()
	var limit unix.Rlimit
	if err := unix.Getrlimit(unix.RLIMIT_NOFILE, &limit); err != nil {
		t.Fatal(err)
	}
	places := make(chan struct{}, max(1, min(limit.Cur/4, 1000)))
	return func() { places <- struct{}{} }, func() { <-places }
}

var long = flag.Bool("long", false, "make four to ten times as many calls, of a target with ten times as many namespaces, and roll back each change for each reason")

// choose returns quick, or whole with -long.
func choose(quick, whole int) int {
	if *long {
		return whole
	}
	return quick
}

// TestTenThousandCalls (row 115): 10,000 calls from 500 simultaneous clients, a tenth of them in the quick form, are all
// answered over a limited number of connections.
func TestTenThousandCalls(t *testing.T) {
	const clients = 500
	calls := choose(2, 20)
	r := newAPIRig(t)
	var failed atomic.Int32
	var all sync.WaitGroup
	enter, leave := atOnce(t)
	for range clients {
		all.Go(func() {
			enter()
			defer leave()
			c := NewClient(r.path)
			defer c.Close()
			for range calls {
				var s Status
				if err := c.Do(t.Context(), "GET", "/v1/status", nil, nil, &s); err != nil || s.PID != os.Getpid() {
					failed.Add(1)
				}
			}
			c.Close() // the next client waits for the connection
		})
	}
	all.Wait()
	if n := failed.Load(); n > 0 {
		t.Errorf("%d of %d calls failed", n, clients*calls)
	}
	r.do("GET", "/v1/status", "", nil)
}

// endless is an endless body that counts what is read.
type endless struct{ read atomic.Int64 }

func (e *endless) Read(b []byte) (int, error) {
	e.read.Add(int64(len(b)))
	for i := range b {
		b[i] = ' '
	}
	return len(b), nil
}

// TestHugeBody (row 115): of a body of 1 GiB, no more than the limit is read.
func TestHugeBody(t *testing.T) {
	t.Parallel()
	r := newAPIRig(t)
	raw := &http.Client{Transport: &http.Transport{
		DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
			return (&net.Dialer{}).DialContext(ctx, "unix", r.path)
		},
		DisableKeepAlives: true,
	}, Timeout: 30 * time.Second}
	body := new(endless)
	answer, err := raw.Post("http://target/v1/subsystems", "application/json", io.LimitReader(body, 1<<30))
	if err == nil { // the server may disconnect before the client has read its answer
		if answer.StatusCode/100 != 4 {
			t.Errorf("status %s", answer.Status)
		}
		_ = answer.Body.Close()
	}
	if n := body.read.Load(); n > 64<<20 {
		t.Errorf("%d bytes of the body were taken", n)
	}
	r.do("GET", "/v1/status", "", nil)
}

// TestBodiesBeforeTheLock: a body is parsed before the call takes the mutex, and the status is answered while large
// ones are refused.
func TestBodiesBeforeTheLock(t *testing.T) {
	r := newAPIRig(t)
	r.apply(r.doc(first))
	api := Handler(r.Manager)
	call := func(path, body string) int {
		w := httptest.NewRecorder()
		api.ServeHTTP(w, httptest.NewRequest("PATCH", path, strings.NewReader(body)))
		return w.Code
	}
	paths := []string{"/v1/listeners/1", "/v1/subsystems/a", "/v1/subsystems/a/hosts/h1", "/v1/subsystems/a/namespaces/1"}
	refused := make(chan int, len(paths))
	r.mu.Lock()
	for _, path := range paths {
		go func() { refused <- call(path, `{"x":`) }()
	}
	late := time.After(10 * time.Second)
	for range paths {
		select {
		case code := <-refused:
			if code != http.StatusBadRequest {
				t.Errorf("status %d", code)
			}
		case <-late:
			t.Error("a body that is no JSON waits for the target")
		}
	}
	r.mu.Unlock()
	var all sync.WaitGroup
	const part = 256 << 10
	for i := range choose(2, 8) {
		body := `{"namespaces":[` + strings.Repeat("0,", part/2-20) + "0]}"
		if i%2 > 0 {
			body = `{"namespaces":[` + strings.Repeat(`{"a":0,"a":0},`, part/14-20) + "{}]}"
		}
		all.Go(func() {
			if code := call("/v1/subsystems/a/hosts/h1", body); code != http.StatusBadRequest {
				t.Errorf("status %d", code)
			}
		})
	}
	ended := make(chan struct{})
	go func() {
		all.Wait()
		close(ended)
	}()
	for more := true; more; {
		began := time.Now()
		r.do("GET", "/v1/status", "", nil)
		if took := time.Since(began); took > 5*time.Second {
			t.Errorf("the status took %v", took)
		}
		select {
		case <-ended:
			more = false
		case <-time.After(10 * time.Millisecond):
		}
	}
}

// TestHostileBodies (row 115) checks endless nesting, and paths that lead elsewhere.
func TestHostileBodies(t *testing.T) {
	r := newAPIRig(t)
	r.do("POST", "/v1/subsystems", `{"nqn": "a"}`, nil)
	link := r.dir + "/link"
	if err := os.Symlink("/dev/zero", link); err != nil {
		t.Fatal(err)
	}
	for name, c := range map[string]struct{ path, body string }{
		"deep arrays":      {"/v1/subsystems", strings.Repeat("[", 1<<20)},
		"deep objects":     {"/v1/subsystems", strings.Repeat(`{"hosts":`, 1<<18)},
		"YAML":             {"/v1/subsystems", "nqn: b\n" + strings.Repeat("hosts: []\n", 1<<18)},
		"not UTF-8":        {"/v1/subsystems", "{\"nqn\": \"\xff\xfe\"}"},
		"relative path":    {"/v1/subsystems/a/namespaces", `{"nsid": 1, "file": {"path": "../../etc/passwd"}}`},
		"a folder":         {"/v1/subsystems/a/namespaces", `{"nsid": 1, "file": {"path": "` + r.dir + `"}}`},
		"link to a device": {"/v1/subsystems/a/namespaces", `{"nsid": 1, "file": {"path": "` + link + `", "size": "1MiB"}}`},
		"route":            {"/v1/subsystems/..%2f..%2fconfig", `{}`},
	} {
		err := r.client.Do(t.Context(), "POST", c.path, nil, []byte(c.body), nil)
		if err == nil {
			t.Errorf("%s: accepted", name)
		} else if len(err.Error()) > 4096 {
			t.Errorf("%s: an error of %d bytes", name, len(err.Error()))
		}
	}
	r.do("GET", "/v1/status", "", nil)
}
