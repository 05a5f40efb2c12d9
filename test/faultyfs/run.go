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

// insideVariable is the environment variable of the process in which a test runs.
const insideVariable = "NVMEOF_FAULTYFS"

// An FS is the file system, as seen by the process that has it mounted.
type FS struct {
	Dir string // where it is mounted

	t       *testing.T
	calls   *caller
	devices *net.UnixConn
}

// Run runs a test on the file system, in a process of its own. A test must call it first and once, and do everything in
// f.
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

// timeout limits a test on the file system, because much can hang in it.
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
	for _, arg := range os.Args[1:] { // flags of the test's package
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
	if os.Geteuid() == 0 { // a user namespace does not give access to devices
		cmd.SysProcAttr = &syscall.SysProcAttr{Cloneflags: syscall.CLONE_NEWNS, Pdeathsig: syscall.SIGKILL}
	}
	s := newServer()
	go (&served{s, devices}).serve(calls) // ends with the process
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

// pair returns a pair of connected sockets. The second one is for the process.
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

// Mount mounts the file system at Dir, also after Unmount.
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

// Unmount unmounts the file system, also for processes with files open on it: all their operations on these files fail
// from then on.
func (f *FS) Unmount() {
	f.t.Helper()
	_ = unix.Unmount(f.Dir, unix.MNT_FORCE|unix.MNT_DETACH) // it may not be mounted
}

// Inject activates a fault.
func (f *FS) Inject(fault Fault) { f.t.Helper(); f.call(call{Method: "inject", Fault: fault}) }

// Release ends all faults, and lets hanging requests continue.
func (f *FS) Release() { f.t.Helper(); f.call(call{Method: "release"}) }

// Space limits the size of the file system in bytes; 0: no limit.
func (f *FS) Space(bytes int64) { f.t.Helper(); f.call(call{Method: "space", Bytes: bytes}) }

// Hanging returns the number of hanging requests.
func (f *FS) Hanging() int { f.t.Helper(); return f.call(call{Method: "hanging"}).Hanging }

// Begin makes the current state durable and restarts the log.
func (f *FS) Begin() { f.t.Helper(); f.call(call{Method: "begin"}) }

// Log returns the changes since Begin.
func (f *FS) Log() *Log { f.t.Helper(); a := f.call(call{Method: "log"}); return &a.Log }

// Crash simulates a power failure: it unmounts the file system, loses unsynced changes as chosen by the seed, and
// mounts it again.
func (f *FS) Crash(seed uint64) {
	f.t.Helper()
	f.Unmount()
	f.call(call{Method: "crash", Seed: seed})
	f.Mount()
}

// EveryCrash calls check for each state that a power failure since Begin may have left. The state is then at Dir, on an
// ordinary file system. Files that are open on the file system itself stay open.
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
