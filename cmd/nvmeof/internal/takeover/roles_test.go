package takeover

import (
	"errors"
	"fmt"
	"io/fs"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sys/unix"
)

// TestClearLeftOver checks that leftovers of ended processes are removed, and nothing else.
func TestClearLeftOver(t *testing.T) {
	gone := exec.Command("true")
	if err := gone.Run(); err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	socket := func(name string, served bool) {
		l, err := net.Listen("unix", filepath.Join(dir, name))
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { l.Close() })
		if !served {
			l.(*net.UnixListener).SetUnlinkOnClose(false)
			_ = l.Close()
		}
	}
	dead, own := fmt.Sprintf(socketName, gone.Process.Pid), fmt.Sprintf(socketName, os.Getpid())
	socket(dead, false)
	socket(own, false)                           // it is about to be served
	socket(fmt.Sprintf(socketName, 1<<30), true) // of another container
	socket("target.sock", false)                 // not ours
	if err := os.WriteFile(filepath.Join(dir, fmt.Sprintf(socketName, 1<<30+1)), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	ClearLeftOver(dir)
	left, err := os.ReadDir(dir)
	if err != nil || len(left) != 4 {
		t.Errorf("%v, %v", left, err)
	}
	if _, err := os.Lstat(filepath.Join(dir, dead)); err == nil {
		t.Error("the socket of a process that has ended is there")
	}
}

// TestNoDescriptor checks that the error does not blame the new process if the running one has no descriptor left.
func TestNoDescriptor(t *testing.T) {
	l, err := net.Listen("unix", filepath.Join(t.TempDir(), "s"))
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	var before unix.Rlimit
	if err := unix.Getrlimit(unix.RLIMIT_NOFILE, &before); err != nil {
		t.Fatal(err)
	}
	none := before
	none.Cur = 0
	if err := unix.Setrlimit(unix.RLIMIT_NOFILE, &none); err != nil {
		t.Fatal(err)
	}
	_, err = Answer(l.Addr().String())
	if back := unix.Setrlimit(unix.RLIMIT_NOFILE, &before); back != nil {
		t.Fatal(back)
	}
	if want := fmt.Sprintf("the running process %d cannot connect", os.Getpid()); err == nil || !strings.Contains(err.Error(), want) {
		t.Errorf("%v, want %q", err, want)
	}
}

// TestTargetOfAnother checks that a user who cannot access the directory of a target's socket is told whose target it
// is, and not advised to name another path.
func TestTargetOfAnother(t *testing.T) {
	if os.Geteuid() == 0 {
		t.Skip("root may write to all folders")
	}
	dir := t.TempDir()
	if err := os.Chmod(dir, 0o500); err != nil {
		t.Fatal(err)
	}
	_, _, err := Ask(t.Context(), filepath.Join(dir, "target.sock"))
	if !errors.Is(err, fs.ErrPermission) || !strings.Contains(err.Error(), "take it over as that user") {
		t.Error(err)
	}
}
