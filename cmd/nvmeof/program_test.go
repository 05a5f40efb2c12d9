package main

import (
	"context"
	"crypto/rand"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime/debug"
	"strconv"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/nvmeof-go/nvmeof/internal/testparallel"
)

var long = flag.Bool("long", false, "all of what takes long, too")

// asProgram, set to anything, makes the test's executable the program itself, as a process that can be killed.
const asProgram = "NVMEOF_TEST_AS_PROGRAM"

func TestMain(m *testing.M) {
	if os.Getenv(unprivileged) != "" {
		dropPrivilege() // does not return
	}
	if os.Getenv(asProgram) != "" {
		beTaker()
		beTakenOver()
		main() // exits
	}
	// The tests create many command lines and few other objects. Collecting them is a third of the computing time.
	const percent = 1000
	debug.SetGCPercent(percent)
	_ = os.Setenv("GOGC", strconv.Itoa(percent)) // for the processes that they start
	testparallel.Set(12)
	state, err := os.MkdirTemp("", "state")
	if err == nil {
		err = errors.Join(os.Setenv("XDG_STATE_HOME", state), os.Setenv("NVMEOF_SOCKET", filepath.Join(state, "target.sock")))
	}
	if err != nil {
		panic(err)
	}
	code := m.Run()
	_ = os.RemoveAll(state)
	os.Exit(code)
}

// loopbackAddress returns an address that most likely no other test uses.
func loopbackAddress() string {
	var b [3]byte
	rand.Read(b[:])
	return fmt.Sprintf("127.%d.%d.%d", 128+b[0]%64, b[1], 1+b[2]%250) // tests of other packages use lower addresses
}

// A separate is the program as a process of its own.
type separate struct {
	cmd         *exec.Cmd
	out, errOut *output
	ended       chan error // receives the one result
}

func startSeparate(t *testing.T, args ...string) *separate {
	t.Helper()
	return startSeparately(t, program(context.Background(), t, args...))
}

func startSeparately(t *testing.T, cmd *exec.Cmd) *separate {
	t.Helper()
	s := &separate{cmd: cmd, out: newOutput(), errOut: newOutput(), ended: make(chan error, 1)}
	s.cmd.Stdout, s.cmd.Stderr = s.out, s.errOut
	if err := s.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	go func() { s.ended <- s.cmd.Wait() }()
	t.Cleanup(func() {
		s.kill(t)
		if t.Failed() {
			t.Logf("%q said:\n%s%s", cmd.Args, s.out, s.errOut)
		}
	})
	return s
}

func (s *separate) signal(t *testing.T, sig unix.Signal) {
	t.Helper()
	if err := s.cmd.Process.Signal(sig); err != nil {
		t.Errorf("signal %v: %v", sig, err)
	}
	if sig == unix.SIGSTOP { // which each thread handles in its own time
		for err := unix.EINTR; err == unix.EINTR; {
			err, _ = unix.Waitid(unix.P_PID, s.cmd.Process.Pid, nil, unix.WSTOPPED|unix.WNOWAIT, nil).(unix.Errno)
		}
	}
}

// kill ends the process at once, like kill -9, if it has not ended.
func (s *separate) kill(t *testing.T) {
	t.Helper()
	_ = s.cmd.Process.Kill() // it may have ended
	select {
	case err := <-s.ended:
		s.ended <- err
	case <-time.After(20 * time.Second):
		t.Fatal("a process does not end by SIGKILL")
	}
}
