package namedfile

import (
	"context"
	"errors"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"
)

func write(t *testing.T, name, text string) string {
	t.Helper()
	if err := os.WriteFile(name, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return name
}

func pipe(t *testing.T) string {
	t.Helper()
	name := filepath.Join(t.TempDir(), "pipe")
	if err := syscall.Mkfifo(name, 0o600); err != nil {
		t.Fatal(err)
	}
	return name
}

func TestRead(t *testing.T) {
	dir := t.TempDir()
	for _, c := range []struct{ name, want string }{
		{write(t, dir+"/empty", ""), ""},
		{write(t, dir+"/ten", "0123456789"), ""},
		{write(t, dir+"/eleven", "0123456789a"), "is longer than 10 bytes: is it the right file?"},
		{"/dev/zero", "/dev/zero is longer than 10 bytes"},
		{"/dev/null", ""},
		{dir, "is a directory"},
		{dir + "/none", "no such file"},
	} {
		_, err := Read(t.Context(), c.name, 10)
		if c.want == "" && err != nil || c.want != "" && (err == nil || !strings.Contains(err.Error(), c.want)) {
			t.Errorf("%s: %v, want %q", c.name, err, c.want)
		}
	}
	if _, err := Read(t.Context(), dir+"/none", 10); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("%v is not fs.ErrNotExist", err)
	}
}

// TestReadPipe: what is written into a pipe is read, however late the writer comes.
func TestReadPipe(t *testing.T) {
	name := pipe(t)
	wrote := make(chan error, 1)
	go func() {
		time.Sleep(50 * time.Millisecond)
		f, err := os.OpenFile(name, os.O_WRONLY, 0)
		for _, part := range []string{"one ", "two"} {
			if err == nil {
				time.Sleep(20 * time.Millisecond)
				_, err = f.WriteString(part)
			}
		}
		wrote <- errors.Join(err, f.Close())
	}()
	text, err := Read(t.Context(), name, 10)
	if err != nil || string(text) != "one two" {
		t.Errorf("%q, %v", text, err)
	}
	if err := <-wrote; err != nil {
		t.Error(err)
	}
}

// TestReadNothing: a pipe without a writer, or with a silent one, does not block a reader forever.
func TestReadNothing(t *testing.T) {
	name := pipe(t)
	_, err := read(t.Context(), name, io.ReadAll, wait{time.Minute, 20 * time.Millisecond})
	if err == nil || !strings.Contains(err.Error(), name+": it is a pipe without a writer") {
		t.Errorf("no writer: %v", err)
	}
	f, err := os.OpenFile(name, os.O_RDWR, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	_, err = read(t.Context(), name, io.ReadAll, wait{50 * time.Millisecond, time.Minute})
	if err == nil || !strings.Contains(err.Error(), "could not be read to its end within 50ms") {
		t.Errorf("a silent writer: %v", err)
	}
	ctx, stop := context.WithTimeout(t.Context(), 20*time.Millisecond)
	defer stop()
	if _, err = Read(ctx, name, 10); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("the context: %v", err)
	}
}

func TestReadFrom(t *testing.T) {
	if _, err := ReadFrom(t.Context(), "standard input", strings.NewReader("0123456789a"), 10); err == nil || !strings.Contains(err.Error(), "standard input is longer than 10 bytes") {
		t.Error(err)
	}
	ctx, stop := context.WithCancel(t.Context())
	r, w := io.Pipe()
	defer w.Close()
	time.AfterFunc(10*time.Millisecond, stop)
	if _, err := ReadFrom(ctx, "standard input", r, 10); !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
}

func TestCompare(t *testing.T) {
	name := write(t, t.TempDir()+"/f", "key\n")
	for text, want := range map[string]bool{"key\n": true, "key": false, "kez\n": false, "longer\n": false} {
		if same, err := Compare(t.Context(), name, []byte(text)); same != want || err != nil {
			t.Errorf("%q: %v, %v", text, same, err)
		}
	}
	if _, err := Compare(t.Context(), name+"?", nil); !errors.Is(err, fs.ErrNotExist) {
		t.Error(err)
	}
}

func TestFill(t *testing.T) {
	name := write(t, t.TempDir()+"/f", "12345")
	b := make([]byte, 5)
	for _, c := range []struct {
		name, in string
		size     int
		want     error
	}{
		{name, "", 5, nil}, {name, "", 3, nil}, {"/dev/zero", "", 5, nil}, {"", "123456", 5, nil}, {"", "", 0, nil},
		{"", "", 5, io.EOF}, {"", "123", 5, io.ErrUnexpectedEOF}, {"/dev/null", "", 1, io.EOF}, {name + "?", "", 1, fs.ErrNotExist},
	} {
		if n, err := Fill(t.Context(), c.name, strings.NewReader(c.in), b[:c.size]); !errors.Is(err, c.want) || err == nil && n != c.size {
			t.Errorf("%+v: %d, %v", c, n, err)
		}
	}
	ctx, stop := context.WithTimeout(t.Context(), 20*time.Millisecond)
	defer stop()
	if _, err := Fill(ctx, pipe(t), nil, b); !errors.Is(err, context.DeadlineExceeded) {
		t.Error(err)
	}
}

func TestFolder(t *testing.T) {
	dir := t.TempDir()
	write(t, dir+"/a.conf", "text")
	if err := os.Symlink("/dev/zero", dir+"/zero"); err != nil {
		t.Fatal(err)
	}
	f := Folder(t.Context(), dir, 10)
	if text, err := fs.ReadFile(f, "a.conf"); err != nil || string(text) != "text" {
		t.Errorf("%q, %v", text, err)
	}
	if _, err := fs.ReadFile(f, "zero"); err == nil || !strings.Contains(err.Error(), "zero is longer than 10 bytes") {
		t.Error(err)
	}
	if names, err := fs.Glob(f, "*.conf"); err != nil || len(names) != 1 {
		t.Errorf("%q, %v", names, err)
	}
	if _, err := fs.ReadFile(f, "../x"); !errors.Is(err, fs.ErrInvalid) {
		t.Error(err)
	}
	if _, err := fs.ReadFile(f, "none"); !errors.Is(err, fs.ErrNotExist) {
		t.Error(err)
	}
}
