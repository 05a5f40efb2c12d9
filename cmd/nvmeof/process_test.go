package main

import (
	"bytes"
	"context"
	"errors"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/spf13/cobra"
	"golang.org/x/sys/unix"

	"github.com/nvmeof-go/nvmeof/cmd/nvmeof/internal/connections"
)

// environments maps the names of tests that run in parallel to their environments.
var environments sync.Map // of map[string]string, written by the test's own goroutine

// beside lets a test that waits a lot run in parallel, with connections, a control socket and an identity of its own.
// Its commands are processes with this environment, except those that [enter] runs in this process.
func beside(t *testing.T) {
	t.Helper()
	t.Parallel()
	environments.Store(t.Name(), map[string]string{"GORACE": "atexit_sleep_ms=0"}) // otherwise a second for each process
	t.Cleanup(func() { environments.Delete(t.Name()) })
	inOwnRunDir(t)
	setenv(t, "XDG_CONFIG_HOME", t.TempDir())
}

// besideShort is beside for a test whose long form measures, and therefore must run alone.
func besideShort(t *testing.T) {
	t.Helper()
	if !*long {
		beside(t)
	}
}

// environment returns the environment of a test in parallel, or of its subtest; nil for other tests.
func environment(t *testing.T) map[string]string {
	name, _, _ := strings.Cut(t.Name(), "/")
	env, _ := environments.Load(name)
	all, _ := env.(map[string]string)
	return all
}

// runDirSet is held while this process uses the directory of connections of a parallel test.
var runDirSet sync.Mutex

// enter prepares a command line of a parallel test to be run in this process, which costs a tenth of starting another.
// It returns nil if that is not possible. The caller must call leave afterwards. Commands that administer need only
// the socket of the environment, for which there is a flag; those that show connections need only the directory.
func enter(root *cobra.Command, env map[string]string, args []string) (line []string, leave func()) {
	if env[unprivileged] != "" {
		return nil, nil
	}
	cmd, _, err := root.Find(args)
	switch {
	case err != nil:
		return nil, nil
	case cmd.Name() == "list-subsys", cmd.Name() == "iopolicy", cmd.CommandPath() == "nvmeof list" && !slices.Contains(args, "-a"):
		runDirSet.Lock()
		os.Setenv("NVMEOF_RUN_DIR", env["NVMEOF_RUN_DIR"])
		return args, func() {
			os.Unsetenv("NVMEOF_RUN_DIR")
			runDirSet.Unlock()
		}
	case cmd.Flags().Lookup("socket") == nil, slices.Contains([]string{"target", "attach", "capture", "demo"}, cmd.Name()):
		return nil, nil
	}
	if !slices.Contains(args, "--socket") {
		if _, err := os.Lstat(env["NVMEOF_SOCKET"]); err != nil {
			return nil, nil // the choice of the target depends on more than that
		}
		args = append(slices.Clip(args), "--socket", env["NVMEOF_SOCKET"])
	}
	return args, func() {}
}

// setenv is t.Setenv for the commands of a test.
func setenv(t *testing.T, name, value string) {
	t.Helper()
	if env := environment(t); env != nil {
		env[name] = value
		return
	}
	t.Setenv(name, value)
}

// runDirOf returns the directory of the connections of a test's commands.
func runDirOf(t *testing.T) string {
	if env := environment(t); env != nil {
		return env["NVMEOF_RUN_DIR"]
	}
	return connections.RunDir()
}

// inOwnRunDir separates a test's connections from those of others.
func inOwnRunDir(t *testing.T) {
	t.Helper()
	dir, err := os.MkdirTemp("", "n") // short: it has sockets
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	setenv(t, "NVMEOF_RUN_DIR", filepath.Join(dir, "run"))
}

// program returns the program as a process to be started, which ends as by SIGTERM when ctx does.
func program(ctx context.Context, t *testing.T, args ...string) *exec.Cmd {
	t.Helper()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.CommandContext(ctx, self, args...)
	cmd.Cancel = func() error { return cmd.Process.Signal(unix.SIGTERM) }
	cmd.WaitDelay = 30 * time.Second
	cmd.Env = append(os.Environ(), asProgram+"=1")
	for name, value := range maps.All(environment(t)) {
		cmd.Env = append(cmd.Env, name+"="+value)
	}
	return cmd
}

// unprivileged makes the program start again without CAP_NET_ADMIN, like that of an ordinary user.
const unprivileged = "NVMEOF_TEST_UNPRIVILEGED"

// dropPrivilege does so. A process without the right to drop the capability does not have it.
func dropPrivilege() {
	self, err := os.Executable()
	if err == nil {
		runtime.LockOSThread() // capabilities belong to a thread
		_ = unix.Prctl(unix.PR_CAPBSET_DROP, unix.CAP_NET_ADMIN, 0, 0, 0)
		_ = os.Unsetenv(unprivileged)
		err = unix.Exec(self, os.Args, os.Environ())
	}
	panic(err)
}

// begin starts a command that stays.
func begin(t *testing.T, out, errOut *output, args ...string) (stop context.CancelFunc, ended chan error) {
	t.Helper()
	ctx, stop := context.WithCancel(context.Background())
	ended = make(chan error, 1)
	if environment(t) != nil {
		cmd := program(ctx, t, args...)
		cmd.Stdout, cmd.Stderr = out, errOut
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		go func() { ended <- ending(cmd.Wait()) }()
		return stop, ended
	}
	root := newRootFor(args, nil)
	root.SetOut(out)
	root.SetErr(errOut)
	go func() { ended <- execute(ctx, root, args) }()
	return stop, ended
}

// ending converts the result of a process: an [exec.ExitError] if the exit code is not 0, and nil if it is, whether or
// not the process was signalled.
func ending(err error) error {
	if errors.Is(err, context.Canceled) {
		return nil
	}
	return err
}

// separately runs a command line to its end as a process.
func separately(ctx context.Context, t *testing.T, in []byte, args ...string) outcome {
	t.Helper()
	var out, errOut bytes.Buffer
	cmd := program(ctx, t, args...)
	cmd.Stdin = bytes.NewReader(in)
	cmd.Stdout, cmd.Stderr = &out, &errOut
	err := cmd.Run()
	return outcome{out.String(), errOut.String(), err}
}
