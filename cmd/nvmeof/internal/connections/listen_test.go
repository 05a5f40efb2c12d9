package connections

import (
	"context"
	"errors"
	"net"
	"os"
	"path/filepath"
	"sync"
	"testing"
	"time"
)

// TestListenWhileOthersLook: a process that begins while others look who is there keeps its
// socket.
func TestListenWhileOthersLook(t *testing.T) {
	dir := t.TempDir()
	ctx, cancel := context.WithCancel(t.Context())
	var look sync.WaitGroup
	for range 4 {
		look.Go(func() {
			for ctx.Err() == nil {
				short, cancel := context.WithTimeout(ctx, 5*time.Millisecond) // it is not answered
				_, _ = All(short, dir)
				cancel()
			}
		})
	}
	defer look.Wait()
	defer cancel()
	for range 200 {
		s, err := listen(dir)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := os.Stat(s.path); err != nil {
			t.Fatal(err)
		}
		if err := s.Close(); err != nil {
			t.Fatal(err)
		}
	}
}

// TestFolderOfAnyName: the name of the folder is no pattern.
func TestFolderOfAnyName(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "[a*")
	if all, err := All(t.Context(), dir); err != nil || len(all) != 0 {
		t.Errorf("without the folder: %v, %v", all, err)
	}
	h := New(Config{Dir: dir, Connector: &fake{}})
	defer h.Close()
	s, err := Serve(h, Services{})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	if all, err := All(t.Context(), dir); err != nil || len(all) != 1 {
		t.Errorf("%v, %v", all, err)
	}
}

// TestUnfinished: what a process left that was killed while it made its socket is cleared, and
// nothing that another one makes now.
func TestUnfinished(t *testing.T) {
	dir := t.TempDir()
	old := time.Now().Add(-2 * unfinishedTime)
	for name, left := range map[string]bool{".7.0": true, ".8.0": false} {
		l, err := net.ListenUnix("unix", &net.UnixAddr{Name: filepath.Join(dir, name), Net: "unix"})
		if err != nil {
			t.Fatal(err)
		}
		l.SetUnlinkOnClose(false)
		if err := l.Close(); err != nil {
			t.Fatal(err)
		}
		if left {
			err = os.Chtimes(filepath.Join(dir, name), old, old)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	file := filepath.Join(dir, ".9.0") // which is no socket
	if err := errors.Join(os.WriteFile(file, nil, 0o600), os.Chtimes(file, old, old)); err != nil {
		t.Fatal(err)
	}
	s, err := listen(dir)
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	for name, want := range map[string]bool{".7.0": false, ".8.0": true, ".9.0": true} {
		if _, err := os.Lstat(filepath.Join(dir, name)); (err == nil) != want {
			t.Errorf("%s: %v, want it to be there: %v", name, err, want)
		}
	}
}
