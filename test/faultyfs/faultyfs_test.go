package faultyfs

import (
	"errors"
	"os"
	"path/filepath"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

func (f *FS) write(name, text string) {
	f.t.Helper()
	f.must(os.WriteFile(filepath.Join(f.Dir, name), []byte(text), 0o600))
}

func TestFaults(t *testing.T) {
	Run(t, func(t *testing.T, fs *FS) {
		fs.write("a", "0123")
		name := filepath.Join(fs.Dir, "a")
		if text, err := os.ReadFile(name); string(text) != "0123" || err != nil {
			t.Fatalf("%q, %v", text, err)
		}
		fs.Inject(Fault{Ops: OpWrite, Name: "a", Err: syscall.EIO, Skip: 1, Count: 1})
		for i, want := range []error{nil, syscall.EIO, nil} {
			if err := os.WriteFile(name, []byte("4567"), 0o600); !errors.Is(err, want) {
				t.Errorf("write %d: %v, want %v", i, err, want)
			}
		}
		fs.Inject(Fault{Ops: OpRead, Lie: true})
		if text, err := os.ReadFile(name); err != nil || text[0] != '4'^0x55 {
			t.Errorf("%q, %v", text, err)
		}
		fs.Release()
		fs.Inject(Fault{Ops: OpLook, Hang: true})
		done := make(chan error, 1)
		go func() {
			_, err := os.Stat(name)
			done <- err
		}()
		for fs.Hanging() == 0 {
			time.Sleep(time.Millisecond)
		}
		fs.Release()
		if err := <-done; err != nil {
			t.Error(err)
		}
		fs.Space(8 << 10)
		if err := os.WriteFile(name, make([]byte, 16<<10), 0o600); !errors.Is(err, syscall.ENOSPC) {
			t.Errorf("write without space: %v", err)
		}
		f, err := os.Open(name)
		fs.must(err)
		defer f.Close()
		fs.Unmount()
		if _, err := f.Stat(); !errors.Is(err, syscall.ENOTCONN) {
			t.Errorf("of a file system that was taken away: %v", err)
		}
		fs.Mount()
		if _, err := os.Stat(name); err != nil {
			t.Error(err)
		}
	})
}

// TestCrash: synced data survive, and other data may be lost.
func TestCrash(t *testing.T) {
	Run(t, func(t *testing.T, fs *FS) {
		lost := 0
		for seed := range uint64(8) {
			f, err := os.Create(filepath.Join(fs.Dir, "kept"))
			fs.must(err)
			_, err = f.WriteString("text")
			fs.must(errors.Join(err, f.Sync(), f.Close()))
			d, err := os.Open(fs.Dir)
			fs.must(err)
			fs.must(errors.Join(d.Sync(), d.Close()))
			fs.write("other", "text")
			fs.Crash(seed)
			if text, err := os.ReadFile(filepath.Join(fs.Dir, "kept")); string(text) != "text" {
				t.Fatalf("%q, %v", text, err)
			}
			if text, _ := os.ReadFile(filepath.Join(fs.Dir, "other")); string(text) != "text" {
				lost++
			}
			fs.must(errors.Join(os.RemoveAll(filepath.Join(fs.Dir, "other"))))
		}
		if lost == 0 {
			t.Error("nothing was lost")
		}
	})
}

// TestImages: a file that is replaced with an fsync missing may be found empty or missing, and one that is replaced
// correctly always has one of its two contents.
func TestImages(t *testing.T) {
	Run(t, func(t *testing.T, fs *FS) {
		for _, syncs := range []bool{false, true} {
			fs.write("f", "old")
			fs.Begin()
			f, err := os.Create(filepath.Join(fs.Dir, "f.new"))
			fs.must(err)
			_, err = f.WriteString("new")
			fs.must(err)
			if syncs {
				fs.must(f.Sync())
			}
			fs.must(errors.Join(f.Close(), os.Rename(f.Name(), filepath.Join(fs.Dir, "f"))))
			found := map[string]int{}
			for m := range fs.Log().Images() {
				dir := t.TempDir()
				fs.must(m.Restore(dir))
				text, err := os.ReadFile(filepath.Join(dir, "f"))
				if errors.Is(err, os.ErrNotExist) {
					text = []byte("none")
				}
				found[string(text)]++
			}
			if found["old"] == 0 || found["new"] == 0 || found["none"] > 0 || (found[""] == 0) != syncs {
				t.Errorf("syncs %v: %v", syncs, found)
			}
		}
	})
}

// TestBlocks: storage is counted when it is allocated and freed.
func TestBlocks(t *testing.T) {
	Run(t, func(t *testing.T, fs *FS) {
		f, err := os.Create(filepath.Join(fs.Dir, "f"))
		fs.must(err)
		defer f.Close()
		for _, step := range []struct {
			mode   uint32
			off, n int64
			blocks int64
		}{{0, 0, 64 << 10, 128}, {unix.FALLOC_FL_PUNCH_HOLE | unix.FALLOC_FL_KEEP_SIZE, 0, 32 << 10, 64}} {
			fs.must(unix.Fallocate(int(f.Fd()), step.mode, step.off, step.n))
			info, err := f.Stat()
			fs.must(err)
			if n := info.Sys().(*syscall.Stat_t).Blocks; n != step.blocks || info.Size() != 64<<10 {
				t.Errorf("%d blocks of %d bytes, want %d", n, info.Size(), step.blocks)
			}
		}
	})
}
