package connections

import (
	"context"
	"os"
	"path/filepath"
	"strings"
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
		if _, err := os.Stat(s.Path()); err != nil {
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

// TestRemoved: a process whose socket was removed is found again soon.
func TestRemoved(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	logged := make(chan string, 10)
	h := New(Config{Dir: dir, Connector: &fake{}, Log: func(line string) { logged <- line }})
	defer h.Close()
	s, err := Serve(h, Services{})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	if err := os.Remove(s.Path()); err != nil {
		t.Fatal(err)
	}
	select {
	case line := <-logged:
		if !strings.Contains(line, "made again") {
			t.Error(line)
		}
	case <-time.After(10 * time.Second):
		t.Fatal("nothing is said of it")
	}
	if all, err := All(t.Context(), dir); err != nil || len(all) != 1 || all[0].Socket != s.Path() {
		t.Errorf("%v, %v", all, err)
	}
}
