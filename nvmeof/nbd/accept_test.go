package nbd

import (
	"net"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/nvmeof-go/nvmeof/nvmeof"
	"github.com/nvmeof-go/nvmeof/nvmeof/nbd/internal/wire"
)

// TestNoDescriptor: while the process has no descriptor left, a client waits without using noticeable processor time,
// other clients are served, and it is served once there is a descriptor.
func TestNoDescriptor(t *testing.T) {
	var mu sync.Mutex
	var lines []string
	s := serve(t, Config{Polling: nvmeof.PollNever, Log: func(line string) {
		mu.Lock()
		defer mu.Unlock()
		lines = append(lines, line)
	}}, newStore(t, 1<<20, 512))
	before := connect(t, s, how{})
	fd, err := unix.Socket(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		t.Fatal(err)
	}
	file := os.NewFile(uintptr(fd), "client")
	defer file.Close()

	var limit unix.Rlimit
	if err := unix.Getrlimit(unix.RLIMIT_NOFILE, &limit); err != nil {
		t.Fatal(err)
	}
	restore := func() {
		if err := unix.Setrlimit(unix.RLIMIT_NOFILE, &limit); err != nil {
			t.Fatal(err)
		}
	}
	t.Cleanup(restore)
	if err := unix.Setrlimit(unix.RLIMIT_NOFILE, &unix.Rlimit{Cur: 3, Max: limit.Max}); err != nil {
		t.Fatal(err)
	}
	if err := unix.Connect(fd, &unix.SockaddrUnix{Name: s.cfg.Socket}); err != nil {
		t.Fatal(err)
	}
	for s.Stats().Unaccepted < 3 {
		time.Sleep(time.Millisecond)
	}
	const wait = 200 * time.Millisecond
	used := processorTime(t)
	time.Sleep(wait)
	if used = processorTime(t) - used; used > wait/4 {
		t.Errorf("%v of processor time in %v", used, wait)
	}
	before.read(0, 512)
	if n := s.Stats().Unaccepted; n > 12 {
		t.Errorf("%d accepts", n)
	}
	restore()
	waited, err := net.FileConn(file)
	if err != nil {
		t.Fatal(err)
	}
	defer waited.Close()
	_ = waited.SetDeadline(time.Now().Add(testTimeout))
	(&client{t: t, c: waited, lengths: map[wire.Cookie]int{}}).get(18)
	connect(t, s, how{}).read(0, 512)
	mu.Lock()
	defer mu.Unlock()
	if len(lines) != 1 || !strings.Contains(lines[0], unix.EMFILE.Error()) {
		t.Errorf("log: %q", lines)
	}
}

func processorTime(t *testing.T) time.Duration {
	t.Helper()
	var u unix.Rusage
	if err := unix.Getrusage(unix.RUSAGE_SELF, &u); err != nil {
		t.Fatal(err)
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

// TestSocketRemoved: a socket whose file was removed is created again, and connected clients do not notice. If another
// process listens on the path, the path is left to that process.
func TestSocketRemoved(t *testing.T) {
	t.Parallel()
	lines := make(chan string, 10)
	s := serve(t, Config{Log: func(line string) { lines <- line }, look: 10 * time.Millisecond}, newStore(t, 1<<20, 512))
	path := s.cfg.Socket
	c := connect(t, s, how{})
	wants := func(want string) {
		t.Helper()
		select {
		case line := <-lines:
			if !strings.Contains(line, want) {
				t.Errorf("%q, want %q", line, want)
			}
		case <-time.After(testTimeout):
			t.Fatalf("nothing is said, want %q", want)
		}
	}
	for range 3 {
		if err := os.Remove(path); err != nil {
			t.Fatal(err)
		}
		wants("was removed; created again: " + path)
		c.read(0, 512)
		c = connect(t, s, how{})
	}
	aside := path + ".d"
	for _, step := range []error{os.Remove(path), os.Mkdir(path, 0o700)} {
		if step != nil {
			t.Fatal(step)
		}
	}
	wants("cannot be created again: " + path + " exists and is not a socket")
	if err := os.Rename(path, aside); err != nil {
		t.Fatal(err)
	}
	wants("created again")

	if err := os.Remove(path); err != nil {
		t.Fatal(err)
	}
	other, err := net.Listen("unix", path)
	for err != nil { // the server was faster
		wants("created again")
		if err = os.Remove(path); err == nil {
			other, err = net.Listen("unix", path)
		}
	}
	wants("cannot be created again: " + path + " is served by another process")
	if err := other.Close(); err != nil {
		t.Fatal(err)
	}
	c.read(0, 512)
	time.Sleep(50 * time.Millisecond)
	if _, err := os.Lstat(path); !os.IsNotExist(err) {
		t.Errorf("the place of another is taken: %v", err)
	}
}

// TestSentAway: clients that reconnect as soon as they are disconnected are all counted, and logged once a second.
func TestSentAway(t *testing.T) {
	const clients = 300
	var mu sync.Mutex
	lines := 0
	s := serve(t, Config{Clients: 1, Log: func(line string) {
		mu.Lock()
		defer mu.Unlock()
		if strings.Contains(line, "a client is refused: 1 is the maximum") {
			lines++
		}
	}}, newStore(t, 1<<20, 512))
	connect(t, s, how{})
	began := time.Now()
	for range clients {
		c, err := net.Dial("unix", s.cfg.Socket)
		if err != nil {
			t.Fatal(err)
		}
		_, _ = c.Read(make([]byte, 1)) // until it is sent away
		c.Close()
	}
	mu.Lock()
	defer mu.Unlock()
	if most := 1 + int(time.Since(began)/reportPause); lines < 1 || lines > most || s.Stats().TooMany != clients {
		t.Errorf("%d lines of %d clients in %v; %+v", lines, clients, time.Since(began), s.Stats())
	}
}
