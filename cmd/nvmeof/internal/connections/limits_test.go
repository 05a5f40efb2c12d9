package connections

import (
	"net/http"
	"os"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"golang.org/x/sys/unix"
)

// atOnce lets as many clients in as this process may have descriptors for, both ends
// of a connection being its own.
func atOnce(t *testing.T) (enter, leave func()) {
	t.Helper()
	var limit unix.Rlimit
	if err := unix.Getrlimit(unix.RLIMIT_NOFILE, &limit); err != nil {
		t.Fatal(err)
	}
	places := make(chan struct{}, max(1, min(limit.Cur/4, 1000)))
	return func() { places <- struct{}{} }, func() { <-places }
}

// TestTenThousandCalls is row 115: 10,000 calls from 500 clients that come at once are all
// answered, over a bounded number of connections.
func TestTenThousandCalls(t *testing.T) {
	const clients, calls = 500, 20
	_, p := serve(t, nil)
	var failed atomic.Int32
	var all sync.WaitGroup
	enter, leave := atOnce(t)
	for range clients {
		all.Go(func() {
			enter()
			defer leave()
			for range calls {
				var got Process
				if err := call(t.Context(), p.Socket, "GET", "/v1/process", nil, &got); err != nil || got.PID != os.Getpid() {
					failed.Add(1)
				}
			}
		})
	}
	all.Wait()
	if n := failed.Load(); n > 0 {
		t.Errorf("%d of %d calls failed", n, clients*calls)
	}
}

// TestHostileBodies is row 115: nesting without end, bodies without end, and what is not
// JSON are refused, and the next call is answered.
func TestHostileBodies(t *testing.T) {
	_, p := serve(t, nil)
	for name, body := range map[string]string{
		"deep arrays":  strings.Repeat("[", 1<<20),
		"deep objects": strings.Repeat(`{"nqn":`, 1<<18),
		"endless":      `{"nqn":"` + strings.Repeat("a", 16<<20),
		"another type": `{"nqn":{"a":1}}`,
	} {
		if code := post(t, p.Socket, "/v1/disconnect", body); code != http.StatusBadRequest {
			t.Errorf("%s: answered with %d", name, code)
		}
	}
	if _, err := p.Info(t.Context()); err != nil {
		t.Error(err)
	}
}
