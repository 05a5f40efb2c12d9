package socketfile

import (
	"errors"
	"io/fs"
	"net"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"golang.org/x/sys/unix"
)

// leave makes a socket that is not served.
func leave(t *testing.T, path string) {
	t.Helper()
	l, err := net.ListenUnix("unix", &net.UnixAddr{Name: path, Net: "unix"})
	if err != nil {
		t.Fatal(err)
	}
	l.SetUnlinkOnClose(false)
	if err := l.Close(); err != nil {
		t.Fatal(err)
	}
}

// wantServed requires that connections at a path are accepted.
func wantServed(t *testing.T, l net.Listener, path string) {
	t.Helper()
	c, err := net.Dial("unix", path)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	accepted, err := l.Accept()
	if err != nil {
		t.Fatal(err)
	}
	_ = accepted.Close()
}

// TestOneOfMany: of many processes that begin at a path with a dead socket, while others remove dead sockets and end,
// only one has it at a time, and its file remains until it ends.
func TestOneOfMany(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "s")
	leave(t, path)
	var turn sync.Mutex // held by the process that has the socket
	var wait sync.WaitGroup
	for range 8 {
		wait.Go(func() {
			for had := 0; had < 20; {
				s, err := Listen(path)
				if errors.As(err, new(*TakenError)) {
					continue
				}
				if err != nil {
					t.Error(err)
					return
				}
				if !turn.TryLock() {
					t.Error("two have it")
					return
				}
				had++
				_ = RemoveDead(path) // it is not dead
				if !s.There() {
					t.Error("its file has gone")
				}
				turn.Unlock()
				if err := s.Close(); err != nil {
					t.Error(err)
				}
			}
		})
	}
	wait.Wait()
	if _, err := os.Lstat(path); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("at the end: %v", err)
	}
}

// TestListen: what prevents a socket from being made, and what does not.
func TestListen(t *testing.T) {
	dir := t.TempDir()
	at := func(name string) string { return filepath.Join(dir, name) }
	leave(t, at("dead"))
	served, err := NewListener(at("served"))
	if err != nil {
		t.Fatal(err)
	}
	defer served.Close()
	full, err := unix.Socket(unix.AF_UNIX, unix.SOCK_STREAM, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer unix.Close(full)
	if err := errors.Join(unix.Bind(full, &unix.SockaddrUnix{Name: at("full")}), unix.Listen(full, 0)); err != nil {
		t.Fatal(err)
	}
	waiting, err := net.Dial("unix", at("full"))
	if err != nil {
		t.Fatal(err)
	}
	defer waiting.Close()
	if err := errors.Join(os.WriteFile(at("file"), nil, 0o600), os.Symlink(at("served"), at("link"))); err != nil {
		t.Fatal(err)
	}
	for name, want := range map[string]string{
		"dead": "", "new": "", "served": "is served by another process", "full": "is served by another process",
		"file": "is not a socket", "link": "is not a socket", "none/s": "create that directory", "file/s": "not a directory",
		strings.Repeat("x", 120): "at most 107",
	} {
		vacant := Vacant(at(name))
		l, err := NewListener(at(name))
		if (vacant == nil) != (err == nil) {
			t.Errorf("%s: %v, and to be expected was %v", name, err, vacant)
		}
		if err == nil && want == "" {
			if info, err := os.Lstat(at(name)); err != nil || info.Mode() != fs.ModeSocket|0o600 {
				t.Errorf("%s: %v, %v", name, info.Mode(), err)
			}
			wantServed(t, l, at(name))
			err = l.Close()
		}
		if want == "" && err != nil || want != "" && (err == nil || !strings.Contains(err.Error(), want)) {
			t.Errorf("%s: %v, want %q", name, err, want)
		}
	}
	for _, path := range []string{"", "@s"} {
		if _, err := Listen(path); err == nil {
			t.Errorf("%q is a path", path)
		}
	}
	wantServed(t, served, at("served"))
}

// TestRenew: a socket whose file was removed is made again, and its listener continues to accept.
func TestRenew(t *testing.T) {
	path := filepath.Join(t.TempDir(), "s")
	l, err := NewListener(path)
	if err != nil {
		t.Fatal(err)
	}
	accepted := make(chan error)
	go func() { // ends when the listener is closed
		for {
			c, err := l.Accept()
			accepted <- err
			if err != nil {
				return
			}
			_ = c.Close()
		}
	}()
	reach := func() {
		t.Helper()
		c, err := net.Dial("unix", path)
		if err != nil {
			t.Fatal(err)
		}
		defer c.Close()
		if err := <-accepted; err != nil {
			t.Fatal(err)
		}
	}
	if reach(); !l.There() {
		t.Error("it is not there at first")
	}
	for range 3 {
		if err := os.Remove(path); err != nil {
			t.Fatal(err)
		}
		if l.There() {
			t.Error("it is there although it was removed")
		}
		if err := l.Renew(); err != nil {
			t.Fatal(err)
		}
		if reach(); !l.There() {
			t.Error("it is not there again")
		}
	}
	if err := errors.Join(l.Close(), l.Close()); err != nil {
		t.Error(err)
	}
	if err := <-accepted; !errors.Is(err, net.ErrClosed) {
		t.Errorf("accepting at the end: %v", err)
	}
}

// TestRenewTaken: what replaced a removed socket is not touched.
func TestRenewTaken(t *testing.T) {
	path := filepath.Join(t.TempDir(), "s")
	l, err := NewListener(path)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.Remove(path); err != nil {
		t.Fatal(err)
	}
	other, err := NewListener(path)
	if err != nil {
		t.Fatal(err)
	}
	defer other.Close()
	if err := l.Renew(); !errors.As(err, new(*TakenError)) || l.There() {
		t.Errorf("the place of another: %v", err)
	}
	if err := errors.Join(l.Close(), l.Close()); err != nil {
		t.Error(err)
	}
	if err := l.Renew(); err == nil || !other.There() {
		t.Errorf("the other's socket has gone: %v", err)
	}
}

// TestLockedFolder: a user who keeps the folder locked, as anyone who can read it may, does not prevent others from
// listening or from removing dead sockets.
func TestLockedFolder(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		dir := t.TempDir()
		folder, err := os.Open(dir)
		if err != nil {
			t.Fatal(err)
		}
		defer folder.Close()
		if err := unix.Flock(int(folder.Fd()), unix.LOCK_EX); err != nil {
			t.Fatal(err)
		}
		leave(t, filepath.Join(dir, "dead"))
		if err := RemoveDead(filepath.Join(dir, "dead")); err != nil {
			t.Error(err)
		}
		if _, err := os.Lstat(filepath.Join(dir, "dead")); err != nil {
			t.Error(err)
		}
		done := make(chan error, 1)
		go func() { // ends with the wait for the lock
			s, err := Listen(filepath.Join(dir, "s"))
			if err == nil {
				err = s.Close()
			}
			done <- err
		}()
		select {
		case err := <-done:
			if err != nil {
				t.Error(err)
			}
		case <-time.After(6 * lockWait):
			t.Error("it waits for the lock for good")
		}
	})
}
