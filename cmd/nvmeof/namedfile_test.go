package main

import (
	"errors"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/nvmeof-go/nvmeof/cmd/nvmeof/internal/targetcommand"
)

// TestEndlessFiles checks that reading a named file is limited.
func TestEndlessFiles(t *testing.T) {
	t.Setenv("XDG_CONFIG_HOME", t.TempDir())
	inOwnRunDir(t)
	for _, line := range []string{
		"target check", "target --config", "target diff", "target apply", "target import", "target export --from",
		"target --export mem:1MiB --nqn nqn.2026-11.org.example:x --listen 127.0.0.1 --allow-host h,dhchap-key-file=", "discover --config", "connect-all --config",
		"connect -t rdma -a 127.0.0.1 -n nqn.2026-11.org.example:x --dhchap-secret file:",
	} {
		args := strings.Fields(line)
		if last := args[len(args)-1]; strings.HasSuffix(last, "=") || strings.HasSuffix(last, ":") {
			args[len(args)-1] += "/dev/zero"
		} else {
			args = append(args, "/dev/zero")
		}
		if o := command(t, args...); o.err == nil || !strings.Contains(o.errOut+o.err.Error(), "/dev/zero is longer than") {
			t.Errorf("%s: %v\n%s", line, o.err, o.errOut)
		}
	}
}

// TestSilentPipe checks that a command that waits for a pipe is ended by SIGTERM.
func TestSilentPipe(t *testing.T) {
	t.Parallel()
	name := filepath.Join(t.TempDir(), "pipe")
	if err := unix.Mkfifo(name, 0o600); err != nil {
		t.Fatal(err)
	}
	for _, args := range [][]string{{"target", "check", name}, {"target", "--config", name}, {"connect-all", "--config", name}} {
		s := startSeparate(t, args...)
		time.Sleep(200 * time.Millisecond) // it reads
		s.signal(t, unix.SIGTERM)
		select {
		case err := <-s.ended:
			s.ended <- err
			if e := new(exec.ExitError); !errors.As(err, &e) {
				t.Errorf("%q: %v", args, err)
			}
		case <-time.After(3 * time.Second):
			t.Errorf("%q does not end", args)
		}
	}
}

// TestPipedConfig reads a document from a pipe, as a shell's <(command) gives it.
func TestPipedConfig(t *testing.T) {
	name := filepath.Join(t.TempDir(), "pipe")
	if err := unix.Mkfifo(name, 0o600); err != nil {
		t.Fatal(err)
	}
	writer := exec.Command("cp", "../../deploy/target.yaml", name)
	if err := writer.Start(); err != nil {
		t.Fatal(err)
	}
	command(t, "target", "check", name).want(t, 0, "2 listener(s)")
	if err := writer.Wait(); err != nil {
		t.Error(err)
	}
}

// TestOneKeyForBoth checks that one file may contain the key of host and target.
func TestOneKeyForBoth(t *testing.T) {
	key := (&configured{dir: t.TempDir(), testTarget: new(testTarget)}).write(t, "key", command(t, "gen-dhchap-key").want(t, 0).out)
	h, err := targetcommand.ParseAllowHost("h,dhchap-key-file=" + key + ",dhchap-ctrl-key-file=" + key)
	if err != nil {
		t.Fatal(err)
	}
	if string(h.KeyFile) != key || string(h.ControllerKeyFile) != key {
		t.Errorf("host's key is in %s, target's in %s", h.KeyFile, h.ControllerKeyFile)
	}
}
