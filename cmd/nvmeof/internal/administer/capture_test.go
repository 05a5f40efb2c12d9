package administer

import (
	"bytes"
	"errors"
	"os"
	"os/signal"
	"path/filepath"
	"testing"

	"golang.org/x/sys/unix"
)

// TestWholeBlocks checks that a file on a full file system ends with a whole block.
func TestWholeBlocks(t *testing.T) {
	signal.Ignore(unix.SIGXFSZ)
	defer signal.Reset(unix.SIGXFSZ)
	f, err := os.Create(filepath.Join(t.TempDir(), "c.pcapng"))
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	var before unix.Rlimit
	if err := unix.Getrlimit(unix.RLIMIT_FSIZE, &before); err != nil {
		t.Fatal(err)
	}
	if err := unix.Setrlimit(unix.RLIMIT_FSIZE, &unix.Rlimit{Cur: 150, Max: before.Max}); err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := unix.Setrlimit(unix.RLIMIT_FSIZE, &before); err != nil {
			t.Error(err)
		}
	}()
	block := bytes.Repeat([]byte("a"), 100)
	if n, err := (whole{f}).Write(block); n != 100 || err != nil {
		t.Fatalf("%d, %v", n, err)
	}
	if n, err := (whole{f}).Write(block); n != 0 || !errors.Is(err, unix.EFBIG) {
		t.Errorf("%d of the second, %v", n, err)
	}
	if info, err := f.Stat(); err != nil || info.Size() != 100 {
		t.Errorf("it has %d bytes, %v", info.Size(), err)
	}
}
