package connections

import (
	"bufio"
	"errors"
	"flag"
	"io"
	"net"
	"net/http"
	"os"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// atOnce limits the number of concurrent clients to what the process's descriptors allow, with both ends of each
// connection in this process.
func atOnce(t *testing.T) (enter, leave func()) {
	t.Helper()
	var limit unix.Rlimit
	if err := unix.Getrlimit(unix.RLIMIT_NOFILE, &limit); err != nil {
		t.Fatal(err)
	}
	places := make(chan struct{}, max(1, min(limit.Cur/4, 1000)))
	return func() { places <- struct{}{} }, func() { <-places }
}

var long = flag.Bool("long", false, "make five times as many calls")

// TestTenThousandCalls is row 115: 10,000 calls from 500 concurrent clients, a fifth of them in the short form, are
// all answered, a limited number at a time.
func TestTenThousandCalls(t *testing.T) {
	const clients = 500
	calls := 4
	if *long {
		calls = 20
	}
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

// TestManyFollowers checks that processes that follow this one, each with a permanent connection, leave room for
// others that list and disconnect.
func TestManyFollowers(t *testing.T) {
	const followers = 2 * maxRequests
	var limit unix.Rlimit
	if err := unix.Getrlimit(unix.RLIMIT_NOFILE, &limit); err != nil || limit.Cur < 4*followers {
		t.Skipf("%d descriptors: both ends of %d connections are this process's", limit.Cur, followers)
	}
	h, p := serve(t, nil)
	for n := range followers {
		c, err := net.Dial("unix", p.Socket)
		if err != nil {
			t.Fatal(err)
		}
		defer c.Close()
		_ = c.SetDeadline(time.Now().Add(20 * time.Second))
		_, err = io.WriteString(c, aliveRequest)
		answer, late := bufio.NewReader(c).ReadString('\n')
		if err = errors.Join(err, late); err != nil || answer != "HTTP/1.1 200 OK\r\n" {
			t.Fatalf("follower %d has the answer %q, %v", n, answer, err)
		}
	}
	if all, err := All(t.Context(), h.config.Dir); err != nil || len(all) != 1 {
		t.Errorf("found %d processes, %v", len(all), err)
	}
	if _, err := p.Disconnect(t.Context(), "", "", ""); err != nil {
		t.Error(err)
	}
}

// TestRequestsAtATime checks that a limited number of requests is served at a time, and that a process can be followed
// meanwhile.
func TestRequestsAtATime(t *testing.T) {
	var limit unix.Rlimit
	if err := unix.Getrlimit(unix.RLIMIT_NOFILE, &limit); err != nil || limit.Cur < 6*maxRequests {
		t.Skipf("%d descriptors: both ends of %d connections are this process's", limit.Cur, 2*maxRequests)
	}
	var at, most atomic.Int32
	begun, end := make(chan struct{}, 2*maxRequests), make(chan struct{})
	_, p := serve(t, func(*Holder, map[string]string, *Process) (string, error) {
		n := at.Add(1)
		defer at.Add(-1)
		for was := most.Load(); n > was && !most.CompareAndSwap(was, n); was = most.Load() {
		}
		begun <- struct{}{}
		<-end
		return "nvme0", nil
	})
	var all sync.WaitGroup
	for range 2 * maxRequests {
		all.Go(func() { // ends after end is closed
			if _, err := p.Connect(t.Context(), nil, "7.0.sock"); err != nil {
				t.Error(err)
			}
		})
	}
	for range maxRequests {
		<-begun
	}
	var nothing any
	if err := call(t.Context(), p.Socket, "GET", "/v1/alive", nil, &nothing); !errors.Is(err, io.EOF) { // it has no body
		t.Error(err)
	}
	close(end)
	all.Wait()
	if n := most.Load(); n != maxRequests {
		t.Errorf("%d requests are answered at a time, want %d", n, maxRequests)
	}
}

// TestHostileBodies is row 115: unlimited nesting, unlimited bodies, and what is not JSON are rejected, and the next
// call is answered.
func TestHostileBodies(t *testing.T) {
	t.Parallel()
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
