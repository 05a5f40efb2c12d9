package main

import (
	"encoding/binary"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"unsafe"

	"golang.org/x/sys/unix"
)

// takenOver makes the program attempt, on SIGUSR1, what an attacker in control of it would, with the directory that it
// names.
const takenOver = "NVMEOF_TEST_TAKEN_OVER"

// beTakenOver does so if the environment requests it.
func beTakenOver() {
	dir := os.Getenv(takenOver)
	if dir == "" {
		return
	}
	now := make(chan os.Signal, 1)
	signal.Notify(now, unix.SIGUSR1)
	go func() {
		<-now
		for _, a := range attempts(dir) {
			fmt.Fprintf(os.Stderr, "attempt %s: %v\n", a.name, a.try())
		}
		fmt.Fprintln(os.Stderr, "attempts end")
	}()
}

// An attempt is an action that a target never performs.
type attempt struct {
	name string
	try  func() error
}

func attempts(dir string) []attempt {
	read := func(name string) func() error {
		return func() error {
			_, err := os.ReadFile(filepath.Join(dir, name))
			return err
		}
	}
	return []attempt{
		{"read store", read("stores/disk.img")},
		{"read secret", read("secret")},
		{"read store by io_uring", func() error { return openByURing(filepath.Join(dir, "stores/disk.img")) }},
		{"read secret by io_uring", func() error { return openByURing(filepath.Join(dir, "secret")) }},
		{"read configuration", read("config/target.yaml")},
		{"write configuration", func() error {
			return os.WriteFile(filepath.Join(dir, "config/target.yaml"), []byte("version: 1\n"), 0o600)
		}},
		{"link secret", func() error {
			return os.Link(filepath.Join(dir, "secret"), filepath.Join(dir, "stores/secret"))
		}},
		{"start", func() error { return exec.Command("/bin/true").Run() }},
		{"mount", func() error { return unix.Mount("none", filepath.Join(dir, "nowhere"), "tmpfs", 0, "") }},
		{"trace", func() error {
			_, err := unix.ProcessVMReadv(os.Getppid(), nil, nil, 0)
			return err
		}},
		{"user", func() error { return unix.Unshare(unix.CLONE_NEWUSER) }},
		{"signal", func() error { return unix.Kill(os.Getppid(), 0) }},
		{"tcp", func() error {
			c, err := net.Dial("tcp", os.Getenv("NVMEOF_TEST_TCP"))
			if err == nil {
				c.Close()
			}
			return err
		}},
		{"udp", func() error {
			c, err := net.Dial("udp", "127.0.0.1:9")
			if err == nil {
				c.Close()
			}
			return err
		}},
	}
}

// openByURing opens a file with an io_uring of its own, which no filter of system calls sees; nil if there is no
// io_uring.
func openByURing(path string) error {
	const opOpenat, enterGetEvents, featSingleMap = 18, 1, 1
	var params [30]uint32 // struct io_uring_params
	fd, _, errno := unix.Syscall(unix.SYS_IO_URING_SETUP, 1, uintptr(unsafe.Pointer(&params)), 0)
	if errno != 0 || params[5]&featSingleMap == 0 {
		return errNoURing
	}
	defer unix.Close(int(fd))
	sq, cq := params[10:20], params[20:30] // offsets of head, tail, mask, entries, flags, dropped, array; and of head, tail, mask, entries, overflow, cqes
	ring, err := unix.Mmap(int(fd), 0, os.Getpagesize(), unix.PROT_READ|unix.PROT_WRITE, unix.MAP_SHARED)
	if err != nil {
		return err
	}
	defer unix.Munmap(ring)
	const entries = 0x10000000 // IORING_OFF_SQES
	sqes, err := unix.Mmap(int(fd), entries, os.Getpagesize(), unix.PROT_READ|unix.PROT_WRITE, unix.MAP_SHARED)
	if err != nil {
		return err
	}
	defer unix.Munmap(sqes)
	name := append([]byte(path), 0)
	at := int32(unix.AT_FDCWD)
	sqes[0] = opOpenat
	binary.NativeEndian.PutUint32(sqes[4:], uint32(at))
	binary.NativeEndian.PutUint64(sqes[16:], uint64(uintptr(unsafe.Pointer(&name[0]))))
	binary.NativeEndian.PutUint32(ring[sq[6]:], 0)
	binary.NativeEndian.PutUint32(ring[sq[1]:], 1)
	_, _, errno = unix.Syscall6(unix.SYS_IO_URING_ENTER, fd, 1, 1, enterGetEvents, 0, 0)
	runtime.KeepAlive(name)
	if errno != 0 {
		return errno
	}
	result := int32(binary.NativeEndian.Uint32(ring[cq[5]+8:]))
	if result < 0 {
		return unix.Errno(-result)
	}
	return unix.Close(int(result))
}

var errNoURing = errors.New("no io_uring here")

// A confined is a target of a file that performs the attempts on request.
type confined struct {
	*separate
	dir    string
	socket string
}

// startConfined starts a target with a store in DIR/stores, its file in DIR/config, and additional text in the
// document.
func startConfined(t *testing.T, more string, args ...string) *confined {
	t.Helper()
	dir := t.TempDir()
	for _, name := range []string{"stores", "later", "config"} {
		if err := os.Mkdir(filepath.Join(dir, name), 0o700); err != nil {
			t.Fatal(err)
		}
	}
	document := strings.ReplaceAll(`version: 1
listeners: [{id: 1, address: `+loopbackAddress()+`}]
subsystems:
  - nqn: `+testNQN+`
    allow-any-host: true
    state: DIR/stores/state
    namespaces:
      - {nsid: 1, file: {path: DIR/stores/disk.img}, reservations: DIR/stores/disk.resv}
`+more, "DIR", dir)
	for name, text := range map[string]string{"secret": "secret\n", "stores/disk.img": strings.Repeat("x", 1<<20), "config/target.yaml": document} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { l.Close() })
	setenv(t, takenOver, dir)
	setenv(t, "NVMEOF_TEST_TCP", l.Addr().String())
	setenv(t, "XDG_STATE_HOME", filepath.Join(dir, "kept"))
	c := &confined{dir: dir, socket: filepath.Join(runDirOf(t)+"s", "c.sock")}
	c.separate = startSeparate(t, append([]string{"target", "--config", filepath.Join(dir, "config/target.yaml"), "--socket", c.socket}, args...)...)
	return c
}

// tries makes the process perform all attempts, and returns their results by name.
func (c *confined) tries(t *testing.T) map[string]string {
	t.Helper()
	c.signal(t, unix.SIGUSR1)
	c.errOut.await(t, "attempts end")
	results := map[string]string{}
	for line := range strings.Lines(c.errOut.String()) {
		if rest, is := strings.CutPrefix(line, "attempt "); is {
			name, result, _ := strings.Cut(strings.TrimSpace(rest), ": ")
			results[name] = result
		}
	}
	return results
}

// needLandlock skips a test if the kernel has no Landlock.
func needLandlock(t *testing.T) (version int) {
	t.Helper()
	v, _, err := unix.Syscall(unix.SYS_LANDLOCK_CREATE_RULESET, 0, 0, unix.LANDLOCK_CREATE_RULESET_VERSION)
	if err != 0 {
		t.Skip("this kernel has no Landlock, or it was not enabled at boot:", err)
	}
	return int(v)
}

// TestSandboxTakenOver checks that an attacker in control of a target reads nothing but its stores, starts no program
// and reaches no other process.
func TestSandboxTakenOver(t *testing.T) {
	version := needLandlock(t)
	beside(t)
	c := startConfined(t, "", "--sandbox", "on")
	c.out.await(t, "nvme connect")
	denied := map[string]error{"read secret": unix.EACCES, "read secret by io_uring": unix.EACCES, "write configuration": unix.EACCES, "link secret": unix.EXDEV, "start": unix.EPERM, "mount": unix.EPERM,
		"trace": unix.EPERM, "user": unix.EPERM, "tcp": unix.EPERM}
	if version >= 6 {
		denied["signal"] = unix.EPERM
	}
	for name, result := range c.tries(t) {
		if result == errNoURing.Error() {
			t.Log(name, "was not tried:", result)
			delete(denied, name)
			continue
		}
		if why := denied[name]; why != nil && !strings.Contains(result, why.Error()) {
			t.Errorf("%s: %s, want %v", name, result, why)
		} else if why == nil && result != "<nil>" && name != "signal" {
			t.Errorf("%s: %s, which a target does", name, result)
		}
		delete(denied, name)
	}
	if len(denied) > 0 {
		t.Errorf("not tried: %v", denied)
	}
}

// TestSandboxAuto checks that without a list of places any file can be added to a target, which still cannot start
// programs. With --sandbox off it is not restricted.
func TestSandboxAuto(t *testing.T) {
	beside(t)
	c := startConfined(t, "")
	c.out.await(t, "nvme connect")
	c.errOut.await(t, "not confined: sandbox.paths in the configuration, or --sandbox on, does that")
	command(t, "namespace", "add", "2", "--file", filepath.Join(c.dir, "later/disk.img"), "--size", "1MiB", "-n", testNQN, "--socket", c.socket).want(t, 0)
	got := c.tries(t)
	for name, want := range map[string]string{"read secret": "<nil>", "start": unix.EPERM.Error(), "tcp": unix.EPERM.Error()} {
		if !strings.Contains(got[name], want) {
			t.Errorf("%s: %s, want %s", name, got[name], want)
		}
	}
	c.signal(t, unix.SIGTERM)
	<-c.ended
	c.ended <- nil
	off := startConfined(t, "", "--sandbox", "off")
	off.out.await(t, "nvme connect")
	for name, result := range off.tries(t) {
		if (name == "read secret" || name == "start" || name == "tcp") && result != "<nil>" {
			t.Errorf("with --sandbox off %s: %s", name, result)
		}
	}
	command(t, "target", "--listen", "127.0.0.1", "--nqn", "n", "--export", "mem:1MiB", "--allow-any-host", "--sandbox", "maybe").want(t, exitUsage, "want auto, on or off")
}

// TestSandboxPlaces checks that files at listed places can be added later, that others are rejected with the remedy,
// and that a target's operations on its own files work.
func TestSandboxPlaces(t *testing.T) {
	needLandlock(t)
	beside(t)
	c := startConfined(t, "sandbox: {paths: [DIR/later]}\n")
	c.out.await(t, "nvme connect")
	at := func(args ...string) []string { return append(args, "-n", testNQN, "--socket", c.socket) }
	file := filepath.Join(c.dir, "later/disk.img")
	command(t, at("namespace", "add", "2", "--file", file, "--size", "1MiB", "--reservations", file+".resv")...).want(t, 0)
	outside := filepath.Join(c.dir, "else.img")
	refusal := []string{outside + " is outside the target's sandbox", "add its directory to sandbox.paths", "--sandbox off", "need a restart"}
	command(t, at("namespace", "add", "3", "--file", outside, "--size", "1MiB")...).want(t, exitFailed, refusal...)
	if _, err := os.Stat(outside); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("the file of a namespace that was refused: %v", err)
	}
	command(t, at("namespace", "add", "3", "--memory", "1MiB", "--save")...).want(t, exitFailed, "config/target.yaml is outside the target's sandbox")
	if o := command(t, "ls", "--socket", c.socket).want(t, 0); strings.Contains(o.out, "TROUBLE") || strings.Contains(o.out, "waits") {
		t.Errorf("a confined target:\n%s", o.out)
	}
	// A store that goes and returns.
	command(t, at("namespace", "remove", "1")...).want(t, 0)
	command(t, at("namespace", "add", "1", "--file", filepath.Join(c.dir, "stores/disk.img"))...).want(t, 0)
}
