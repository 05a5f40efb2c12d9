package main

import (
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"
)

// withKey starts a target with the key of a host, with all that it logs, in a directory of its own.
func withKey(t *testing.T) (s *separate, at []string, key, dir string) {
	t.Helper()
	file, key := writeKey(t, "host.key", 0o600)
	dir = t.TempDir()
	addr := loopbackAddress()
	cmd := program(context.Background(), t, "target", "--listen", addr, "--nqn", testNQN, "--export", "mem:1MiB", "--log-level", "debug",
		"--allow-host", keyedHost+",dhchap-key-file="+file, "--socket", filepath.Join(runDirOf(t)+"s", "s.sock"))
	cmd.Dir = dir
	cmd.Env = append(cmd.Env, "GOTRACEBACK=crash")
	cmd.Args = append([]string{"sh", "-c", `ulimit -c unlimited; exec "$0" "$@"`, cmd.Path}, cmd.Args[1:]...)
	cmd.Path = "/bin/sh"
	s = &separate{cmd: cmd, out: newOutput(), errOut: newOutput(), ended: make(chan error, 1)}
	cmd.Stdout, cmd.Stderr = s.out, s.errOut
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	go func() { s.ended <- cmd.Wait() }()
	t.Cleanup(func() { s.kill(t) })
	s.out.await(t, "nvme connect")
	return s, []string{"id-ns", "-t", "rdma", "-a", addr, "-n", testNQN, "-q", keyedHost, "-S", "file:" + file}, key, dir
}

// TestNoCore checks that a process with keys that is aborted writes no core file, neither in its directory nor to a
// program that collects core dumps, and that its last output contains no key.
func TestNoCore(t *testing.T) {
	beside(t)
	control := exec.Command("/bin/sh", "-c", "ulimit -c unlimited && kill -ABRT $$")
	control.Dir = t.TempDir()
	_ = control.Run()
	if status, ok := control.ProcessState.Sys().(syscall.WaitStatus); !ok || !status.CoreDump() {
		t.Skip("this machine makes no core files")
	}
	s, at, key, dir := withKey(t)
	command(t, at...).want(t, 0)
	s.signal(t, unix.SIGABRT)
	err := <-s.ended
	s.ended <- err
	if status, ok := s.cmd.ProcessState.Sys().(syscall.WaitStatus); !ok || status.CoreDump() || !status.Signaled() {
		t.Errorf("the process ended with %v, and a core file: %v", err, status.CoreDump())
	}
	if left, err := os.ReadDir(dir); err != nil || len(left) > 0 {
		t.Errorf("it left %v, %v", left, err)
	}
	if text := s.errOut.String(); !strings.Contains(text, "SIGABRT") || strings.Contains(text, key) {
		t.Errorf("its last words have the key: %v", strings.Contains(text, key))
	}
}

// TestSecretsAreNotShown checks that keys in files appear neither in logs, nor in command lines and environments of
// processes, nor in responses of the API, whatever hosts do.
func TestSecretsAreNotShown(t *testing.T) {
	beside(t)
	s, at, key, _ := withKey(t)
	socket := filepath.Join(runDirOf(t)+"s", "s.sock")
	other, otherKey := writeKey(t, "other.key", 0o600)
	var said strings.Builder
	note := func(o outcome) { said.WriteString(o.out + o.errOut) }
	note(command(t, at...).want(t, 0))
	note(command(t, append(at[:len(at)-1:len(at)-1], "file:"+other)...).want(t, exitConnection))
	for _, line := range []string{"ls", "ls -o json", "ls -o yaml", "controller list -o json", "host list -o json", "key show -o json", "target export", "stats"} {
		note(command(t, append(strings.Fields(line), "--socket", socket)...)) // some need more, and the errors matter too
	}
	for _, name := range []string{"cmdline", "environ"} {
		b, err := os.ReadFile("/proc/" + strconv.Itoa(s.cmd.Process.Pid) + "/" + name)
		if err != nil {
			t.Fatal(err)
		}
		said.Write(b)
	}
	s.signal(t, unix.SIGHUP)
	s.errOut.await(t, "keys were read again")
	said.WriteString(s.out.String() + s.errOut.String())
	for _, k := range []string{key, otherKey} {
		if secret := strings.Split(k, ":")[2]; strings.Contains(said.String(), secret[:20]) {
			t.Errorf("a key is shown in:\n%s", said.String())
		}
	}
}

// TestPromises checks that each test that deploy/SECURITY.md names exists, and that each promise has one.
func TestPromises(t *testing.T) {
	const root = "../../"
	text, err := os.ReadFile(root + "deploy/SECURITY.md")
	if err != nil {
		t.Fatal(err)
	}
	named := regexp.MustCompile("`([a-z/]+)\\.(Test[A-Za-z0-9]+)`").FindAllSubmatch(text, -1)
	if len(named) < 20 {
		t.Errorf("only %d tests are named", len(named))
	}
	for _, m := range named {
		found := false
		files, _ := filepath.Glob(root + string(m[1]) + "/*_test.go")
		for _, file := range files {
			source, err := os.ReadFile(file)
			found = found || err == nil && strings.Contains(string(source), "\nfunc "+string(m[2])+"(")
		}
		if !found {
			t.Errorf("there is no test %s in %s", m[2], m[1])
		}
	}
	for line := range strings.Lines(string(text)) {
		if strings.HasPrefix(line, "| ") && !strings.HasPrefix(line, "| what") && !strings.Contains(line, "Test") && !strings.Contains(line, "no test:") {
			t.Errorf("a promise without a test: %s", line)
		}
	}
	wantLinks(t, root+"deploy/SECURITY.md")
}
