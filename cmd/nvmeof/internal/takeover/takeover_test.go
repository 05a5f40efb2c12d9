package takeover

import (
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/nvmeof-go/nvmeof/nvmeof/config"
	"github.com/nvmeof-go/nvmeof/nvmeof/control"
	"github.com/nvmeof-go/nvmeof/nvmeof/target"
)

// connected returns the two ends of a connection.
func connected(t *testing.T) (running, next *Conn) {
	t.Helper()
	l, err := net.Listen("unix", filepath.Join(t.TempDir(), "s"))
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	if running, err = Answer(l.Addr().String()); err != nil {
		t.Fatal(err)
	}
	c, err := l.Accept()
	if err == nil {
		next, err = NewConn(c.(*net.UnixConn))
	}
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _, _ = running.Close(), next.Close() })
	return running, next
}

// TestOneServes checks that hosts are never served by both processes: the new one serves them once the running one has
// agreed, and not if that one has waited too long.
func TestOneServes(t *testing.T) {
	for _, late := range []bool{false, true} {
		running, next := connected(t)
		given := make(chan error, 1)
		go func() { // ends with Give
			_, _, err := running.receive() // of kindReady
			if err == nil && late {
				err = running.sendState(nothing())
			} else if err == nil {
				err = running.Give(nothing())
			}
			if err == nil && late {
				err = running.Close() // as after the time limit, whatever has arrived
			}
			given <- err
		}()
		if _, err := next.Take(); err != nil {
			t.Fatal(err)
		}
		if err := next.Serve(); (err != nil) != late {
			t.Errorf("late %v: the new process serves: %v", late, err)
		}
		if err := <-given; err != nil {
			t.Errorf("late %v: %v", late, err)
		}
	}
}

func nothing() *control.Moved {
	return &control.Moved{Document: &config.Document{Version: config.Version}, Saved: &config.Document{Version: config.Version}, Target: new(target.Moved)}
}

// TestWhoIsThere checks that other users are rejected, and a process without a PID in this namespace: a signal to that
// PID would go to this process's own group.
func TestWhoIsThere(t *testing.T) {
	for _, test := range []struct {
		peer unix.Ucred
		want string
	}{
		{unix.Ucred{Pid: 7, Uid: 1000}, ""},
		{unix.Ucred{Pid: 7, Uid: 0}, ""},
		{unix.Ucred{Pid: 7, Uid: 1001}, "process 7 belongs to user 1001, but this one to user 1000"},
		{unix.Ucred{Pid: 0, Uid: 1000}, "another container"},
	} {
		if err := check(&test.peer, 1000); (err == nil) != (test.want == "") || err != nil && !strings.Contains(err.Error(), test.want) {
			t.Errorf("%+v: %v, want %q", test.peer, err, test.want)
		}
	}
	if running, _ := connected(t); running.PID() != os.Getpid() || running.ended() {
		t.Errorf("process %d is there", running.PID())
	}
}
