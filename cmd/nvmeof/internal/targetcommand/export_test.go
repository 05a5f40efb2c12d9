package targetcommand

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/nvmeof-go/nvmeof/nvmeof/config"
	"github.com/nvmeof-go/nvmeof/nvmeof/control"
)

// TestHangUpOfConsole checks that SIGHUP does not end a target with a console, whose certificate may have been
// renewed.
func TestHangUpOfConsole(t *testing.T) {
	if d := new(config.Document); rereads(d) {
		t.Error("a target without files rereads some")
	} else if d.Console.Tokens = "/tokens"; !rereads(d) {
		t.Error("SIGHUP ends a target with a console")
	}
}

// TestOpenExport checks that exports are opened as they say, and the errors of others.
func TestOpenExport(t *testing.T) {
	dir := t.TempDir()
	for s, text := range map[string]string{
		dir + "/missing":                "no such file",
		"/dev/no-such-disk":             "no such file",
		"/dev/null":                     "character device",
		dir + "/../nowhere/x,size=1MiB": "no such file",
	} {
		n, err := parseExport(s)
		if err != nil {
			t.Fatal(err)
		}
		if store, _, err := control.OpenStore(n, nil); err == nil || !strings.Contains(err.Error(), text) {
			t.Errorf("open %q: %v, %v, want an error with %q", s, store, err, text)
		}
	}
	if _, err := parseExport("/dev/no-such-disk,size=1GiB"); err == nil || !strings.Contains(err.Error(), "size is an option of files and images of Ceph, not of block devices") {
		t.Errorf("a device with a size: %v", err)
	}
	for s, want := range map[string]int{"/f.img,size=1MiB": 512, "/g.img,size=1m,bs=4096": 4096} {
		n, err := parseExport(dir + s)
		if err != nil {
			t.Fatal(err)
		}
		store, _, err := control.OpenStore(n, nil)
		if err != nil {
			t.Fatal(err)
		}
		if got := store.Info().BlockSize; got != want {
			t.Errorf("%s has blocks of %d bytes, want %d", s, got, want)
		}
		if err := store.Close(); err != nil {
			t.Error(err)
		}
	}
}

// TestExportPaths checks that the namespace has the absolute path, resolved as the file system does.
func TestExportPaths(t *testing.T) {
	dir, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(os.MkdirAll(filepath.Join(dir, "a", "b"), 0o700), os.Symlink("a/b", filepath.Join(dir, "link"))); err != nil {
		t.Fatal(err)
	}
	t.Chdir(dir)
	for s, want := range map[string]string{
		"disk.img": "/disk.img", "./disk.img": "/disk.img", "link/disk.img": "/link/disk.img", "link/../disk.img": "/a/disk.img",
		dir + "//disk.img": "/disk.img", "a/../none/x": "/none/x",
	} {
		n, err := parseExport(s)
		if err != nil || string(n.Path()) != dir+want {
			t.Errorf("%s is %v, %v, want %s", s, n.Path(), err, dir+want)
		}
	}
	n, err := parseExport("disk.img,resv=r")
	if err != nil || string(n.Reservations) != dir+"/r" {
		t.Errorf("reservations at %v, %v", n, err)
	}
}

// TestExportInUse checks that a file in use by a virtual machine is rejected, and exported with force.
func TestExportInUse(t *testing.T) {
	path := filepath.Join(t.TempDir(), "disk.img")
	if err := os.WriteFile(path, make([]byte, 1<<20), 0o600); err != nil {
		t.Fatal(err)
	}
	machine, err := os.OpenFile(path, os.O_RDWR, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer machine.Close()
	// The locks that QEMU takes for a disk that it writes to: see block/file-posix.c there.
	for _, at := range []int64{100, 101, 201} {
		lock := unix.Flock_t{Type: unix.F_RDLCK, Start: at, Len: 1}
		if err := unix.FcntlFlock(machine.Fd(), unix.F_OFD_SETLK, &lock); err != nil {
			t.Skipf("the file system has no such locks: %v", err)
		}
	}
	e, err := parseExport(path)
	if err != nil {
		t.Fatal(err)
	}
	if store, _, err := control.OpenStore(e, nil); err == nil || !strings.Contains(err.Error(), "in use") || !strings.Contains(err.Error(), "force") {
		t.Errorf("open: %v, %v", store, err)
	}
	if e, err = parseExport(path + ",force"); err != nil {
		t.Fatal(err)
	}
	store, _, err := control.OpenStore(e, nil)
	if err != nil {
		t.Fatal(err)
	}
	if err := store.Close(); err != nil {
		t.Error(err)
	}
}
