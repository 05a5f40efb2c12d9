package control

import (
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// TestListenBeside checks the sockets of targets that leave the default one to another.
func TestListenBeside(t *testing.T) {
	dir, err := os.MkdirTemp("", "n") // short, since it has sockets
	if err != nil {
		t.Fatal(err)
	}
	defer os.RemoveAll(dir)
	uid := os.Getuid()
	env := map[string]string{"NVMEOF_SOCKET": filepath.Join(dir, "run", "s.sock"), "TMPDIR": filepath.Join(dir, "tmp")}
	getenv := func(name string) string { return env[name] }
	listen := func(name, want string) *Socket {
		t.Helper()
		s, err := ListenBeside(getenv, uid, name)
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		t.Cleanup(func() { _ = s.Close() })
		if got := strings.TrimPrefix(s.Path(), dir); got != want {
			t.Errorf("%s is at %s, want %s", name, got, want)
		}
		return s
	}
	first := listen("a", "/run/s-a.sock")
	again, err := ListenBeside(getenv, uid, "a") // in another network namespace
	if err != nil || again.Path() == first.Path() {
		t.Errorf("the second of a name: %v, %v", again, err)
	}
	if _, err := Listen(first.Path()); !errors.As(err, new(*TakenError)) {
		t.Errorf("a socket that is served is taken: %v", err)
	}
	long := strings.Repeat("x", 100)
	if err := os.Mkdir(env["TMPDIR"], 0o700); err != nil {
		t.Fatal(err)
	}
	if _, err := ListenBeside(getenv, uid, long); err == nil || !strings.Contains(err.Error(), "at most 107") {
		t.Errorf("too long a path: %v", err)
	}
	if got, want := Sockets(getenv, uid), []string{first.Path(), again.Path()}; !sameSet(got, want) {
		t.Errorf("served are %q, want %q", got, want)
	}
	if err := again.Close(); err != nil {
		t.Error(err)
	}

	env["NVMEOF_SOCKET"] = "/proc/none/s.sock"
	temporary := filepath.Dir(temporarySocket(getenv, uid))
	inTemporary := listen("b", strings.TrimPrefix(temporary, dir)+"/target-b.sock")
	if got := Sockets(getenv, uid); !slices.Equal(got, []string{inTemporary.Path()}) {
		t.Errorf("served are %q", got)
	}
	if err := os.Chmod(temporary, 0o777); err != nil { // now any user can write to it
		t.Fatal(err)
	}
	if got := Sockets(getenv, uid); len(got) != 0 {
		t.Errorf("in a folder that others write to %q is trusted", got)
	}
	if s, err := ListenBeside(getenv, uid, "c"); err == nil {
		t.Errorf("a socket at %s, where others write", s.Path())
	}
}

// TestSocketOfOthers: a takeover finds the target of the user in the temporary folder if that is the user's own. It
// does not connect to sockets in a folder that another user may have created.
func TestSocketOfOthers(t *testing.T) {
	dir, err := os.MkdirTemp("", "n")
	if err != nil {
		t.Fatal(err)
	}
	defer os.RemoveAll(dir)
	getenv := func(name string) string {
		return map[string]string{"NVMEOF_SOCKET": "/proc/none/s.sock", "TMPDIR": dir}[name]
	}
	uid := os.Getuid()
	s, err := ListenBeside(getenv, uid, "b")
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	if at, err := SocketOf(getenv, uid, "b"); at != s.Path() {
		t.Errorf("the target is at %s: %v", at, err)
	}
	if err := os.Chmod(filepath.Dir(s.Path()), 0o777); err != nil {
		t.Fatal(err)
	}
	if at, err := SocketOf(getenv, uid, "b"); err == nil {
		t.Errorf("%s is trusted in a folder that others write to", at)
	}
	if uid != 0 {
		return // only root can create folders of others
	}
	if err := errors.Join(os.Chmod(filepath.Dir(s.Path()), 0o755), os.Chown(filepath.Dir(s.Path()), 12345, 12345)); err != nil {
		t.Fatal(err)
	}
	if at, err := SocketOf(getenv, uid, "b"); err == nil {
		t.Errorf("%s is trusted in another user's folder", at)
	}
}

// TestListenDefault: a user who cannot create the default socket gets another one, unless NVMEOF_SOCKET names it.
func TestListenDefault(t *testing.T) {
	dir, err := os.MkdirTemp("", "n")
	if err != nil {
		t.Fatal(err)
	}
	defer os.RemoveAll(dir)
	uid := os.Getuid()
	locked := filepath.Join(dir, "locked")
	env := map[string]string{"RUNTIME_DIRECTORY": filepath.Join(locked, "x"), "TMPDIR": dir}
	getenv := func(name string) string { return env[name] }
	if err := os.Mkdir(locked, 0o500); err != nil {
		t.Fatal(err)
	}
	s, err := ListenDefault(getenv, uid)
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	want := temporarySocket(getenv, uid)
	if uid == 0 { // root can create it
		want = filepath.Join(locked, "x", socketName)
	}
	if s.Path() != want {
		t.Errorf("it is at %s, want %s", s.Path(), want)
	}
	if got := Sockets(getenv, uid); !slices.Equal(got, []string{want}) {
		t.Errorf("served are %q", got)
	}
	if _, err := ListenDefault(getenv, uid); !errors.As(err, new(*TakenError)) {
		t.Errorf("the second target of a user: %v", err)
	}
	env["NVMEOF_SOCKET"] = filepath.Join(locked, "y", "s")
	if s, err := ListenDefault(getenv, uid); err == nil && uid != 0 {
		t.Errorf("the socket that was named is at %s", s.Path())
	}
}

// TestSocketsOfOthers: in a folder that everybody can write to, a socket of another user with a target's name is
// not one of this user's targets.
func TestSocketsOfOthers(t *testing.T) {
	dir, err := os.MkdirTemp("", "n")
	if err != nil {
		t.Fatal(err)
	}
	defer os.RemoveAll(dir)
	getenv := func(name string) string {
		return map[string]string{"NVMEOF_SOCKET": filepath.Join(dir, "t.sock"), "TMPDIR": dir}[name]
	}
	s, err := ListenBeside(getenv, os.Getuid(), "a")
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	if got := Sockets(getenv, os.Getuid()); !slices.Equal(got, []string{s.Path()}) {
		t.Errorf("served are %q", got)
	}
	if os.Getuid() != 0 {
		t.Skip("only root can make sockets of others")
	}
	if err := os.Chown(s.Path(), 12345, 12345); err != nil {
		t.Fatal(err)
	}
	if got := Sockets(getenv, 0); len(got) != 0 {
		t.Errorf("%q of another user is trusted", got)
	}
	if err := os.Chown(dir, 12345, 12345); err != nil { // like the folder of a service
		t.Fatal(err)
	}
	if got := Sockets(getenv, 0); !slices.Equal(got, []string{s.Path()}) {
		t.Errorf("served in the folder of a service are %q", got)
	}
}

// TestSocketOfTheNext: a target that closes its socket more than once does not remove that of the next one.
func TestSocketOfTheNext(t *testing.T) {
	dir, err := os.MkdirTemp("", "n")
	if err != nil {
		t.Fatal(err)
	}
	defer os.RemoveAll(dir)
	path := filepath.Join(dir, "s")
	first, err := Listen(path)
	if err != nil {
		t.Fatal(err)
	}
	if err := first.Close(); err != nil {
		t.Fatal(err)
	}
	next, err := Listen(path) // it may get the inode number that has become free
	if err != nil {
		t.Fatal(err)
	}
	defer next.Close()
	if err := first.Close(); err != nil || !isServed(path) {
		t.Errorf("closing the first again, %v, has removed the socket of the next", err)
	}
}

func sameSet(a, b []string) bool {
	return slices.Equal(slices.Sorted(slices.Values(a)), slices.Sorted(slices.Values(b)))
}

// TestListenBesideNowhere: a target that cannot create a socket reports why, also if the names are taken and there
// is no other folder.
func TestListenBesideNowhere(t *testing.T) {
	dir, err := os.MkdirTemp("", "n")
	if err != nil {
		t.Fatal(err)
	}
	defer os.RemoveAll(dir)
	getenv := func(name string) string {
		return map[string]string{"NVMEOF_SOCKET": filepath.Join(dir, "t.sock"), "TMPDIR": filepath.Join(dir, "none")}[name]
	}
	for range 2 { // the name, and that of the process
		s, err := ListenBeside(getenv, os.Getuid(), "a")
		if err != nil {
			t.Fatal(err)
		}
		defer s.Close()
	}
	if s, err := ListenBeside(getenv, os.Getuid(), "a"); s != nil || err == nil {
		t.Errorf("%v, %v, want an error", s, err)
	}
}

// TestSocketRemoved: a target whose socket or its folder is removed can soon be reached again.
func TestSocketRemoved(t *testing.T) {
	t.Parallel()
	r := newAPIRig(t)
	for _, what := range []string{r.path, filepath.Dir(r.path)} {
		r.do("GET", "/v1/status", "", nil)
		if err := os.RemoveAll(what); err != nil {
			t.Fatal(err)
		}
		r.client.Close() // connections persist
		r.client = NewClient(r.path)
		if err := r.client.Do(t.Context(), "GET", "/v1/status", nil, nil, nil); err == nil {
			t.Error("it is reached without a socket")
		}
		r.await("the socket is there again", func() bool { return isServed(r.path) })
	}
	r.do("GET", "/v1/status", "", nil)
	if info, err := os.Lstat(r.path); err != nil || info.Mode() != os.ModeSocket|0o600 {
		t.Errorf("%v, %v", info, err)
	}
}
