package connections

import (
	"context"
	"errors"
	"net"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/nvmeof-go/nvmeof/nvmeof"
)

// TestListenWhileOthersLook checks that a process that starts while others list the processes keeps its socket.
func TestListenWhileOthersLook(t *testing.T) {
	dir := t.TempDir()
	ctx, cancel := context.WithCancel(t.Context())
	var look sync.WaitGroup
	for range 4 {
		look.Go(func() {
			for ctx.Err() == nil {
				short, cancel := context.WithTimeout(ctx, 5*time.Millisecond) // the request is not answered
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

// TestFolderOfAnyName checks that the name of the directory is not interpreted as a pattern.
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

// TestFolderRemoved checks that names are not given to other processes after all files in the directory were removed:
// the next process gets other names, and a restarted one its own.
func TestFolderRemoved(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	dir := r.holder.config.Dir
	logged := make(chan string, 10)
	r.holder.config.Log = func(line string) { logged <- line }
	r.connect("a", "192.0.2.1", "nvme0")
	r.connect("a", "192.0.2.2", "nvme1")
	s, err := Serve(r.holder, Services{})
	if err != nil {
		t.Fatal(err)
	}
	if err := os.RemoveAll(dir); err != nil {
		t.Fatal(err)
	}
	for line := ""; !strings.Contains(line, "created again"); {
		select {
		case line = <-logged:
		case <-time.After(10 * time.Second):
			t.Fatal("nothing is said of it")
		}
	}
	next := newRig(t)
	next.holder.config.Dir = dir
	next.connect("b", "192.0.2.1", "nvme2")

	if err := os.Remove(claimPath(dir, 1)); err != nil {
		t.Fatal(err)
	}
	taken, err := tryClaim(dir, 1)
	if taken == nil || err != nil {
		t.Fatal(err)
	}
	r.holder.renewClaims()
	if line := <-logged; !strings.Contains(line, "another process now also has the name nvme1") {
		t.Error(line)
	}
	if err := errors.Join(s.Close(), r.holder.Close(), next.holder.Close()); err != nil {
		t.Error(err)
	}
	if p := readPast(claimPath(dir, 0)); p.Subsystem != "a" {
		t.Errorf("of nvme0 is kept %+v", p)
	}
}

// TestRemoved checks that a process whose socket was removed is found again soon.
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
		if !strings.Contains(line, "created again") {
			t.Error(line)
		}
	case <-time.After(10 * time.Second):
		t.Fatal("nothing is said of it")
	}
	if all, err := All(t.Context(), dir); err != nil || len(all) != 1 || all[0].Socket != s.Path() {
		t.Errorf("%v, %v", all, err)
	}
}

// TestDisconnectEnded checks that a process that ended after it was found counts as one without controllers.
func TestDisconnectEnded(t *testing.T) {
	at := filepath.Join(t.TempDir(), "1.sock")
	for _, left := range []bool{false, true} {
		if left { // the socket of a killed process
			l, err := net.ListenUnix("unix", &net.UnixAddr{Name: at})
			if err != nil {
				t.Fatal(err)
			}
			l.SetUnlinkOnClose(false)
			l.Close()
		}
		p := &Process{Socket: at}
		for _, ask := range []func(context.Context, string, string, string) ([]string, error){p.Recall, p.Disconnect} {
			if names, err := ask(t.Context(), "a", "", ""); len(names) != 0 || err != nil {
				t.Errorf("%v, %v", names, err)
			}
		}
	}
}

// TestRecallOfTheLast checks that a process that ends because others give up its last controllers still reports their
// names.
func TestRecallOfTheLast(t *testing.T) {
	h := New(Config{Dir: filepath.Join(t.TempDir(), "run"), Connector: &fake{subs: map[nvmeof.NQN]*fakeSubsystem{}}})
	var s *Server
	closed := make(chan error, 1)
	s, err := Serve(h, Services{Recall: func(ctx context.Context, _ func(SubsystemInfo, ControllerInfo) bool) ([]string, error) {
		go func() { closed <- s.Close() }()
		select { // Close is in progress
		case <-ctx.Done():
		case <-time.After(50 * time.Millisecond):
		}
		return []string{"nvme1"}, ctx.Err()
	}})
	if err != nil {
		t.Fatal(err)
	}
	p := &Process{Socket: s.Path()}
	if names, err := p.Recall(t.Context(), "a", "", ""); len(names) != 1 || err != nil {
		t.Errorf("%v, %v", names, err)
	}
	if err := errors.Join(<-closed, h.Close()); err != nil {
		t.Error(err)
	}
}
