package control

import (
	"net"
	"os"
	"path/filepath"
	"slices"
	"testing"
)

// makeSocket creates a socket that is served until the test ends, or not at all.
func makeSocket(t *testing.T, path string, served bool) {
	t.Helper()
	l, err := net.ListenUnix("unix", &net.UnixAddr{Name: path, Net: "unix"})
	if err != nil {
		t.Fatal(err)
	}
	if l.SetUnlinkOnClose(false); served {
		t.Cleanup(func() { _ = l.Close() })
		return
	}
	if err := l.Close(); err != nil {
		t.Fatal(err)
	}
}

// wantFiles checks that a folder has exactly these names.
func wantFiles(t *testing.T, dir string, want ...string) {
	t.Helper()
	entries, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	var left []string
	for _, e := range entries {
		left = append(left, e.Name())
	}
	if slices.Sort(want); !slices.Equal(left, want) {
		t.Errorf("there is\n%q, want\n%q", left, want)
	}
}

// TestLeftOver: a start removes what killed targets left beside its socket, and nothing that is in use or may
// belong to another user.
func TestLeftOver(t *testing.T) {
	dir, err := os.MkdirTemp("", "n") // short, since it has sockets
	if err != nil {
		t.Fatal(err)
	}
	defer os.RemoveAll(dir)
	at := func(name string) string { return filepath.Join(dir, name) }
	if err := os.WriteFile(at("target-file.sock"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	for name, served := range map[string]bool{"target-1234.sock": false, "target-192.0.2.1:4420.sock": false, "target-served.sock": true, "other-1.sock": false, "targets.sock": false} {
		makeSocket(t, at(name), served)
	}
	strangers := []string{"other-1.sock", "targets.sock", "target-file.sock", "target-served.sock"}
	dead := []string{"target-1234.sock", "target-192.0.2.1:4420.sock"}

	s, err := Listen(at("mine.sock")) // there are no sockets of targets beside it
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	wantFiles(t, dir, slices.Concat(strangers, dead, []string{"mine.sock"})...)
	getenv := func(name string) string { return map[string]string{"NVMEOF_SOCKET": at("target.sock")}[name] }
	s, err = ListenDefault(getenv, os.Getuid())
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	wantFiles(t, dir, slices.Concat(strangers, []string{"mine.sock", "target.sock"})...)
}
