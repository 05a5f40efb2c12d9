//go:build !386 && !arm

package faultyfs

import (
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// insideVariable says to a process that it is the one in which a test runs.
const insideVariable = "NVMEOF_FAULTYFS"

// An FS is the file system, in the process that has it mounted.
type FS struct {
	Dir string // where it is mounted

	t       *testing.T
	calls   *caller
	devices *net.UnixConn
}

// Run runs a test on the file system, in a process of its own. A test calls it first, once,
// and does everything in f.
func Run(t *testing.T, f func(t *testing.T, fs *FS)) {
	t.Helper()
	if os.Getenv(insideVariable) == "" {
		outside(t)
		return
	}
	fs := &FS{Dir: filepath.Join(t.TempDir(), "faulty"), t: t}
	calls, err := net.FileConn(os.NewFile(3, "calls"))
	fs.must(err)
	devices, err := net.FileConn(os.NewFile(4, "devices"))
	fs.must(err)
	fs.calls, fs.devices = newCaller(calls), devices.(*net.UnixConn)
	fs.must(os.Mkdir(fs.Dir, 0o755))
	fs.Mount()
	t.Cleanup(func() {
		fs.Release()
		fs.Unmount()
	})
	f(t, fs)
}

// timeout bounds what a test on the file system takes, in which much can hang.
const timeout = 2 * time.Minute

// outside starts the process in which the test runs, and serves the file system to it.
func outside(t *testing.T) {
	t.Helper()
	if _, err := os.Stat("/dev/fuse"); err != nil {
		t.Skipf("this machine has no FUSE: %v", err)
	}
	calls, theirs := pair(t)
	devices, theirDevices := pair(t)
	parts := strings.Split(t.Name(), "/")
	for i, p := range parts {
		parts[i] = "^" + regexp.QuoteMeta(p) + "$"
	}
	cmd := exec.Command(os.Args[0], "-test.run="+strings.Join(parts, "/"), "-test.v", "-test.timeout="+timeout.String())
	for _, arg := range os.Args[1:] { // those of the package
		if !strings.HasPrefix(arg, "-test.") {
			cmd.Args = append(cmd.Args, arg)
		}
	}
	cmd.Env = append(os.Environ(), insideVariable+"=1")
	cmd.ExtraFiles = []*os.File{theirs, theirDevices}
	cmd.SysProcAttr = &syscall.SysProcAttr{
		Cloneflags:  syscall.CLONE_NEWUSER | syscall.CLONE_NEWNS,
		UidMappings: []syscall.SysProcIDMap{{HostID: os.Getuid(), Size: 1}},
		GidMappings: []syscall.SysProcIDMap{{HostID: os.Getgid(), Size: 1}},
		Pdeathsig:   syscall.SIGKILL,
	}
	if os.Geteuid() == 0 { // what devices take, a user namespace does not give
		cmd.SysProcAttr = &syscall.SysProcAttr{Cloneflags: syscall.CLONE_NEWNS, Pdeathsig: syscall.SIGKILL}
	}
	s := newServer()
	go (&served{s, devices}).serve(calls) // ends when the process does
	var out strings.Builder
	cmd.Stdout, cmd.Stderr = &out, &out
	if err := cmd.Start(); err != nil {
		t.Skipf("cannot start a process that may mount: %v", err)
	}
	theirs.Close()
	theirDevices.Close()
	late := time.AfterFunc(timeout+10*time.Second, func() {
		s.release()
		_ = cmd.Process.Kill()
	})
	defer late.Stop()
	err := cmd.Wait()
	calls.Close()
	devices.Close()
	s.release()
	switch said := out.String(); {
	case err != nil:
		t.Errorf("on the file system: %v\n%s", err, said)
	case strings.Contains(said, "\n--- SKIP: "+t.Name()+" ") || strings.Contains(said, "--- SKIP: "+t.Name()+" ("):
		t.Skip(said)
	case testing.Verbose():
		t.Log(said)
	}
}

// pair is a pair of connected sockets, of which the second is for the process.
func pair(t *testing.T) (net.Conn, *os.File) {
	t.Helper()
	fds, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		t.Fatal(err)
	}
	f := os.NewFile(uintptr(fds[0]), "socket")
	c, err := net.FileConn(f)
	if err != nil {
		t.Fatal(err)
	}
	f.Close()
	return c, os.NewFile(uintptr(fds[1]), "socket")
}

func (f *FS) must(err error) {
	f.t.Helper()
	if err != nil {
		f.t.Fatal("file system: ", err)
	}
}

func (f *FS) call(c call) answer {
	f.t.Helper()
	a, err := f.calls.call(c)
	f.must(err)
	return a
}

// Mount mounts it at Dir, again after Unmount.
func (f *FS) Mount() {
	f.t.Helper()
	fd, err := unix.Open("/dev/fuse", unix.O_RDWR|unix.O_CLOEXEC, 0)
	if err != nil {
		f.t.Skipf("open /dev/fuse: %v", err)
	}
	defer unix.Close(fd)
	options := fmt.Sprintf("fd=%d,rootmode=40755,user_id=%d,group_id=%d", fd, os.Geteuid(), os.Getegid())
	if err := unix.Mount("faulty", f.Dir, "fuse.faulty", unix.MS_NOSUID|unix.MS_NODEV, options); err != nil {
		f.t.Skipf("cannot mount: %v", err)
	}
	_, _, err = f.devices.WriteMsgUnix([]byte{0}, unix.UnixRights(fd), nil)
	f.must(err)
	f.call(call{Method: "serve"})
}

// Unmount takes it away from everybody, also from those who have files open there: all that
// they do with them fails from now on.
func (f *FS) Unmount() {
	f.t.Helper()
	_ = unix.Unmount(f.Dir, unix.MNT_FORCE|unix.MNT_DETACH) // it may not be mounted
}

// Inject puts a fault in force.
func (f *FS) Inject(fault Fault) { f.t.Helper(); f.call(call{Method: "inject", Fault: fault}) }

// Release ends all faults, and lets go what hangs.
func (f *FS) Release() { f.t.Helper(); f.call(call{Method: "release"}) }

// Space bounds how many bytes there are in all; 0: no bound.
func (f *FS) Space(bytes int64) { f.t.Helper(); f.call(call{Method: "space", Bytes: bytes}) }

// Hanging is how many requests hang.
func (f *FS) Hanging() int { f.t.Helper(); return f.call(call{Method: "hanging"}).Hanging }

// Begin makes what is there durable, and begins the log anew.
func (f *FS) Begin() { f.t.Helper(); f.call(call{Method: "begin"}) }

// Log is what was changed since Begin.
func (f *FS) Log() *Log { f.t.Helper(); a := f.call(call{Method: "log"}); return &a.Log }

// Crash is a power failure: it takes the file system away, with what was not synced as the
// seed has it, and mounts it again.
func (f *FS) Crash(seed uint64) {
	f.t.Helper()
	f.Unmount()
	f.call(call{Method: "crash", Seed: seed})
	f.Mount()
}

// EveryCrash calls check for each state that a power failure since Begin may have left, with
// that state at Dir, on an ordinary file system. What has files open on the file system itself keeps them.
func (f *FS) EveryCrash(check func(m *Image)) {
	f.t.Helper()
	l := f.Log()
	states := 0
	for m := range l.Images() {
		f.must(unix.Mount("states", f.Dir, "tmpfs", 0, ""))
		f.must(m.Restore(f.Dir))
		check(m)
		f.must(unix.Unmount(f.Dir, unix.MNT_DETACH))
		states++
	}
	f.t.Logf("%d states after %d changes", states, len(l.Changes))
}
