package file

import (
	"errors"
	"os"
	"slices"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/nvmeof-go/nvmeof/backend"
)

// reflink makes a copy of a file that shares its blocks, like cp(1).
func reflink(t *testing.T, from, to string) {
	t.Helper()
	src, err := os.Open(from)
	if err != nil {
		t.Fatal(err)
	}
	defer src.Close()
	dst, err := os.Create(to)
	if err != nil {
		t.Fatal(err)
	}
	defer dst.Close()
	switch err := unix.IoctlFileClone(int(dst.Fd()), int(src.Fd())); {
	case errors.Is(err, unix.EOPNOTSUPP), errors.Is(err, unix.ENOTTY), errors.Is(err, unix.EINVAL):
		t.Skipf("this file system does not share blocks: %v", err)
	case err != nil:
		t.Fatal(err)
	}
}

// TestSharedBlocks: a file that was copied by sharing its blocks, before it was opened or while it is open, may run out
// of space, and its notes say so.
func TestSharedBlocks(t *testing.T) {
	path := tempFile(t)
	s := openStore(t, path, Config{Size: 1 << 20})
	durable := writeRequest(4096, 1)
	durable.FUA = true
	for _, r := range []backend.Request{durable, writeRequest(64<<10, 2)} {
		if err := run(t, s, r); err != nil {
			t.Fatal(err)
		}
	}
	if slices.Contains(s.Notes(), rewritingNote) {
		closeStore(t, s)
		t.Skip("the file system rewrites nothing in place")
	}
	look := func(s *Store, want bool) {
		t.Helper()
		if _, err := s.Refresh(); err != nil {
			t.Fatal(err)
		}
		if got := slices.Contains(s.Notes(), sharedNote); got != want {
			t.Errorf("notes %q; want the one on shared blocks: %v", s.Notes(), want)
		}
	}
	look(s, false)
	reflink(t, path, path+".copy")
	look(s, true)
	if err := run(t, s, durable); err != nil {
		t.Error(err)
	}
	closeStore(t, s)
	s = openStore(t, path, Config{})
	defer closeStore(t, s)
	look(s, true)
}

// TestSharedBlocksOfOwnCopy: what a host copies shares its blocks with the original.
func TestSharedBlocksOfOwnCopy(t *testing.T) {
	path := tempFile(t)
	s := openStore(t, path, Config{Size: 1 << 20})
	if !s.Info().Copy {
		closeStore(t, s)
		t.Skip("this file system does not share blocks")
	}
	for _, r := range []backend.Request{writeRequest(8192, 1), {Op: backend.OpCopy, From: 0, Offset: 512 << 10, Length: 8192}} {
		if err := run(t, s, r); err != nil {
			t.Fatal(err)
		}
	}
	closeStore(t, s)
	s = openStore(t, path, Config{})
	defer closeStore(t, s)
	if !slices.Contains(s.Notes(), sharedNote) && !slices.Contains(s.Notes(), rewritingNote) {
		t.Errorf("notes %q", s.Notes())
	}
}
