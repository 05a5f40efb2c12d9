package file

import (
	"bufio"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/nvmeof-go/nvmeof/backend"
)

// The tests in this file need a second process: this binary, started again in the role that the variable names.
const roleVariable = "NVMEOF_FILE_TEST_ROLE"

func TestMain(m *testing.M) {
	switch role, path, _ := strings.Cut(os.Getenv(roleVariable), ":"); role {
	case "":
		os.Exit(m.Run())
	case "hold":
		hold(path)
	case "write and die":
		writeAndDie(path)
	case "full":
		fillUp(path)
	case "unmarked":
		unmarked(path)
	case "lose":
		loseUnderStores(path)
	case "grow":
		growSlowly(path)
	case "hang":
		hangUnderQueues(path)
	case "serve losing":
		serveLosing(path)
	}
}

func startRole(t *testing.T, role, path string, change func(*exec.Cmd)) (*exec.Cmd, *bufio.Reader) {
	t.Helper()
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), roleVariable+"="+role+":"+path)
	cmd.Stderr = os.Stderr
	if change != nil {
		change(cmd)
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Skipf("cannot start a process like that: %v", err)
	}
	t.Cleanup(func() {
		cmd.Process.Kill()
		cmd.Wait()
	})
	return cmd, bufio.NewReader(out)
}

func must(err error) {
	if err != nil {
		fmt.Println("failed:", err)
		os.Exit(1)
	}
}

// hold keeps the file open until it is killed.
func hold(path string) {
	_, err := Open(path, Config{})
	must(err)
	fmt.Println("ready")
	time.Sleep(time.Minute)
}

func TestSecondOpener(t *testing.T) {
	path := tempFile(t)
	s := openStore(t, path, Config{Size: 1 << 20})
	for _, cfg := range []Config{{}, {ReadOnly: true}, {Size: 1 << 20}} {
		other, err := Open(path, cfg)
		var locked *LockedError
		if !errors.As(err, &locked) || locked.Path != path || locked.PID != os.Getpid() ||
			!strings.Contains(err.Error(), "this process: export it in one namespace only") {
			t.Fatalf("second Open(%+v): %v, %v", cfg, other, err)
		}
	}
	closeStore(t, s)

	cmd, out := startRole(t, "hold", path, nil)
	if line, err := out.ReadString('\n'); line != "ready\n" {
		t.Fatalf("other process: %q, %v", line, err)
	}
	_, err := Open(path, Config{})
	var locked *LockedError
	if !errors.As(err, &locked) || locked.PID != cmd.Process.Pid || locked.Command == "" ||
		!strings.Contains(err.Error(), fmt.Sprint(cmd.Process.Pid)) {
		t.Errorf("Open beside process %d: %v", cmd.Process.Pid, err)
	}
	cmd.Process.Kill()
	cmd.Wait()
	closeStore(t, openStore(t, path, Config{})) // also while the kernel tidies up
}

func writeAndDie(path string) {
	s, err := Open(path, Config{})
	must(err)
	q, err := s.NewQueue(1, nil)
	must(err)
	r := writeRequest(8192, 0xab)
	r.FUA, r.Offset = true, 4096
	q.Submit([]backend.Request{r})
	var got [1]backend.Result
	for q.Poll(got[:]) == 0 {
	}
	must(got[0].Err)
	must(syscall.Kill(os.Getpid(), syscall.SIGKILL))
}

// Row 81 of the catalogue of bad input: a FUA write survives kill -9.
func TestDurableAfterKill(t *testing.T) {
	path := tempFile(t)
	closeStore(t, openStore(t, path, Config{Size: 1 << 20}))
	cmd, out := startRole(t, "write and die", path, nil)
	if line, _ := out.ReadString('\n'); line != "" {
		t.Fatal(line)
	}
	cmd.Wait()
	s := openStore(t, path, Config{})
	defer closeStore(t, s)
	r := readRequest(16384)
	if err := run(t, s, r); err != nil {
		t.Fatal(err)
	}
	if r.Buf[4095] != 0 || r.Buf[4096] != 0xab || r.Buf[12287] != 0xab || r.Buf[12288] != 0 {
		t.Error("the write is not there")
	}
}

// fillUp runs as root of its own user namespace.
func fillUp(dir string) {
	must(unix.Mount("none", dir, "tmpfs", 0, "size=2m"))
	path := filepath.Join(dir, "namespace.img")
	_, err := Open(path, Config{Size: 4 << 20})
	if !errors.Is(err, backend.ErrNoSpace) {
		must(fmt.Errorf("Open of more than there is: %w", err))
	}
	if _, err := os.Stat(path); err == nil {
		must(errors.New("the file that could not be allocated is still there"))
	}
	s, err := Open(path, Config{Size: 4 << 20, Thin: true})
	must(err)
	q, err := s.NewQueue(1, nil)
	must(err)
	do := func(r backend.Request) error {
		q.Submit([]backend.Request{r})
		var got [1]backend.Result
		for q.Poll(got[:]) == 0 {
		}
		return got[0].Err
	}
	full := writeRequest(3<<20, 1)
	if err := do(full); err != backend.ErrNoSpace {
		must(fmt.Errorf("write of more than there is: %w", err))
	}
	must(do(backend.Request{Op: backend.OpFlush}))
	must(do(backend.Request{Op: backend.OpDeallocate, Length: 4 << 20}))
	must(do(writeRequest(1<<20, 2)))
	fmt.Println("done")
}

// namespaces allow a process to mount as an ordinary user.
func namespaces() *syscall.SysProcAttr {
	return &syscall.SysProcAttr{
		Cloneflags:  syscall.CLONE_NEWUSER | syscall.CLONE_NEWNS,
		UidMappings: []syscall.SysProcIDMap{{HostID: os.Getuid(), Size: 1}},
		GidMappings: []syscall.SysProcIDMap{{HostID: os.Getgid(), Size: 1}},
	}
}

// Row 79 of the catalogue of bad input: ENOSPC on a real file system. Space that becomes free is used.
func TestNoSpace(t *testing.T) { onFileSystem(t, "full") }

// TestMarkBeside: on a file system without extended attributes the mark is in a file beside it.
func TestMarkBeside(t *testing.T) { onFileSystem(t, "unmarked") }

// onFileSystem makes a role mount its own file system.
func onFileSystem(t *testing.T, role string) {
	t.Helper()
	_, out := startRole(t, role, t.TempDir(), func(cmd *exec.Cmd) {
		cmd.SysProcAttr = namespaces()
	})
	line, _ := out.ReadString('\n')
	if strings.Contains(line, unix.EPERM.Error()) {
		t.Skip("mounting in a user namespace is not allowed here")
	}
	if line != "done\n" {
		t.Errorf("%s: %q", role, line)
	}
}

// TestRemovedAsItIsOpened: a file that another process removes between its open and its lock is not served, and a new
// file of the same name is not removed.
func TestRemovedAsItIsOpened(t *testing.T) {
	path := filepath.Join(t.TempDir(), "disk")
	s := &Store{path: path, cfg: Config{Size: 1 << 20, BlockSize: 512}}
	created, err := s.openFile()
	if err != nil || !created {
		t.Fatal(created, err)
	}
	if err := os.Remove(path); err != nil {
		t.Fatal(err)
	}
	if err := s.prepare(created); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("a file without a name is served: %v", err)
	}
	if err := unlockAndClose(s.fd); err != nil {
		t.Error(err)
	}
}
