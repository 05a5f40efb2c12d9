package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"go.uber.org/zap"
	"golang.org/x/sys/unix"
)

func TestParseExport(t *testing.T) {
	for s, want := range map[string]export{
		"mem:1MiB":                  {memory: 1 << 20},
		"mem:1MiB,bs=4096":          {memory: 1 << 20, blockSize: 4096},
		"/a/b.img":                  {path: "/a/b.img"},
		"b.img,size=1GiB,thin,ro":   {path: "b.img", size: 1 << 30, thin: true, readOnly: true},
		"b.img,buffered,bs=512":     {path: "b.img", blockSize: 512, buffered: true},
		"/dev/sdx,force,ro":         {path: "/dev/sdx", force: true, readOnly: true},
		"/with space/and=equal.img": {path: "/with space/and=equal.img"},
		"mem:1MiB,resv=/a/r":        {memory: 1 << 20, resv: "/a/r"},
	} {
		if got, err := parseExport(s); err != nil || got != want {
			t.Errorf("parseExport(%q) = %+v, %v, want %+v", s, got, err, want)
		}
	}
	for s, text := range map[string]string{
		"":               "names nothing",
		"mem:":           "size",
		"mem:1MiB,bs=1k": "512 or 4096",
		"x,sice=1GiB":    "did you mean size?",
		"x,rw":           "there are bs, buffered, force, resv, ro, size, thin",
		"x,resv=":        "resv=FILE",
		"mem:1MiB,thin":  "of files",
		"mem:1MiB,force": "and devices",
	} {
		if _, err := parseExport(s); err == nil || !strings.Contains(err.Error(), text) {
			t.Errorf("parseExport(%q): %v, want an error with %q", s, err, text)
		}
	}
}

func TestOpenExport(t *testing.T) {
	dir := t.TempDir()
	for s, text := range map[string]string{
		dir + "/missing":                "size=1GiB",
		"/dev/no-such-disk":             "no such file",
		"/dev/no-such-disk,size=1GiB":   "options of files",
		"/dev/null":                     "character device",
		dir + "/../nowhere/x,size=1MiB": "no such file",
	} {
		e, err := parseExport(s)
		if err != nil {
			t.Fatal(err)
		}
		if store, err := e.open(zap.NewNop()); err == nil || !strings.Contains(err.Error(), text) {
			t.Errorf("open %q: %v, %v, want an error with %q", s, store, err, text)
		}
	}
	for s, want := range map[string]int{"/f.img,size=1MiB": 512, "/g.img,size=1MiB,bs=4096": 4096} {
		e, _ := parseExport(dir + s)
		store, err := e.open(zap.NewNop())
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

// TestExportInUse: a file that a virtual machine has is refused, and exported by force.
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
	// What QEMU locks for a disk that it writes to: see block/file-posix.c there.
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
	if store, err := e.open(zap.NewNop()); err == nil || !strings.Contains(err.Error(), "in use") || !strings.Contains(err.Error(), "force") {
		t.Errorf("open: %v, %v", store, err)
	}
	if e, err = parseExport(path + ",force"); err != nil {
		t.Fatal(err)
	}
	store, err := e.open(zap.NewNop())
	if err != nil {
		t.Fatal(err)
	}
	if err := store.Close(); err != nil {
		t.Error(err)
	}
}
