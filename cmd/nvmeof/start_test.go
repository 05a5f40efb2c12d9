package main

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// TestFailedStart checks that a target that cannot start says why, in one line, and nothing else.
func TestFailedStart(t *testing.T) {
	beside(t)
	ownSocket(t)
	s := startTarget(t, "--export", "mem:1MiB", "--allow-any-host")
	dir := t.TempDir()
	bad, taken, none := filepath.Join(dir, "bad.yaml"), filepath.Join(dir, "taken.yaml"), filepath.Join(dir, "none")
	for file, text := range map[string]string{
		bad:   "listeners: [{id: 1, address: 192.0.2.1}]\nsubsystem: []\n",
		taken: "listeners: [{id: 1, address: " + s.addr + "}]\nsubsystems: [{nqn: " + testNQN + ", allow-any-host: true}]\n",
	} {
		if err := os.WriteFile(file, []byte("version: 1\n"+text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	at := "target --nqn " + testNQN + " --allow-any-host --listen " + loopbackAddress()
	for line, want := range map[string]struct {
		code int
		text string
	}{
		at + " --export " + none:                             {exitFailed, "--export " + none + ": "},
		at + " --export mem:1MiB --listen 192.0.2.1":         {exitFailed, "--listen 192.0.2.1: softroce: 192.0.2.1 is not an address of this machine (ip address shows them)"},
		at + " --export mem:1MiB --listen " + s.addr:         {exitFailed, "--listen " + s.addr + ": "},
		at + " --export mem:1MiB,resv=" + dir:                {exitFailed, "--export mem:1MiB,resv=" + dir + ": "},
		at + " --export mem:1MiB --exprt mem:1MiB":           {exitUsage, "unknown flag: --exprt; did you mean export?"},
		at + " --export mem:1MiB --socket /proc/none/socket": {exitFailed, "control socket: "},
		at + " --export mem:1MiB --congestion fast":          {exitUsage, "invalid argument \"fast\" for \"--congestion\" flag: "},
		"target --config " + bad:                             {exitUsage, bad + ":3:1: unknown field subsystem; did you mean subsystems?"},
		"target --config " + taken:                           {exitFailed, taken + ": add listener 1: softroce: process "},
		"target --config " + none:                            {exitFailed, "open " + none + ": "},
	} {
		o := command(t, words(line)...)
		if said := o.errOut; o.code() != want.code || o.out != "" || strings.Count(said, "\n") != 1 || !strings.HasPrefix(said, "nvmeof: "+want.text) {
			t.Errorf("%s: exit code %d, want %d and only %s:\n%s%s", line, o.code(), want.code, want.text, o.out, said)
		}
	}
}

// TestHungFileSystem checks that SIGTERM ends a target that opens, or is to open, what does not
// answer. It needs root, as most mounts do.
func TestHungFileSystem(t *testing.T) {
	beside(t)
	ownSocket(t)
	document := func(disk string) string {
		file := filepath.Join(t.TempDir(), "target.yaml")
		text := fmt.Sprintf("version: 1\nlisteners: [{id: 1, address: %s}]\nsubsystems:\n- nqn: %s\n  namespaces: [{nsid: 1, file: {path: %s}}]\n", loopbackAddress(), testNQN, disk)
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		return file
	}
	target := "target --nqn " + testNQN + " --allow-any-host --listen " + loopbackAddress() + " --export "
	serving := startSeparate(t, words(target+"mem:1MiB")...)
	serving.out.await(t, "nvme connect")
	add := startSeparate(t, words("namespace add 2 -n "+testNQN+" --file "+hungFileSystem(t)+"/disk")...)
	disk := hungFileSystem(t) + "/disk" // of one process: another one that looked for it too could not be killed
	ends := map[*separate]string{}
	for line, want := range map[string]string{
		target + hungFileSystem(t) + "/disk":                  "interrupted: a file or device that it reads or exports does not answer",
		"target --config " + document(disk):                   "interrupted: " + disk + " does not answer",
		"target check " + document(hungFileSystem(t)+"/disk"): "interrupted: a file or device that it exports does not answer",
	} {
		ends[startSeparate(t, words(line)...)] = want
	}
	time.Sleep(1500 * time.Millisecond) // until they hang; a start waits for 5 s
	serving.signal(t, unix.SIGTERM)
	for s := range ends {
		s.wantAwake(t)
		s.signal(t, unix.SIGTERM)
	}
	for s, want := range ends {
		s.wantEnd(t, exitInterrupted, want)
	}
	serving.wantEnd(t, 0, "stopping") // after what was being added has had its time
	add.kill(t)
}

// wantAwake finds that the main thread is not what hangs: the kernel gives it the signals.
func (s *separate) wantAwake(t *testing.T) {
	t.Helper()
	stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", s.cmd.Process.Pid))
	if err != nil || strings.Contains(string(stat), ") D ") {
		t.Errorf("%v, the main thread hangs: %s", err, stat)
	}
}

// wantEnd waits for a process's end by itself.
func (s *separate) wantEnd(t *testing.T, code int, text string) {
	t.Helper()
	select {
	case err := <-s.ended:
		s.ended <- err
		if got := s.cmd.ProcessState.ExitCode(); got != code || !strings.Contains(s.errOut.String(), text) {
			t.Errorf("exit code %d, want %d and %q:\n%s", got, code, text, s.errOut)
		}
	case <-time.After(20 * time.Second):
		s.signal(t, unix.SIGQUIT) // for what its goroutines do
		time.Sleep(time.Second)
		t.Errorf("it does not end by a signal; it should, with %q:\n%s", text, s.errOut)
	}
}

// hungFileSystem mounts a file system that nobody serves.
func hungFileSystem(t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
	server, err := unix.Open("/dev/fuse", unix.O_RDWR|unix.O_CLOEXEC, 0)
	if err == nil {
		err = unix.Mount("hung", dir, "fuse", unix.MS_NODEV, fmt.Sprintf("fd=%d,rootmode=40000,user_id=0,group_id=0", server))
	}
	if err != nil {
		t.Skipf("needs root and FUSE: %v", err)
	}
	t.Cleanup(func() {
		_ = unix.Close(server) // what waits for it fails
		if err := unix.Unmount(dir, unix.MNT_DETACH); err != nil {
			t.Error(err)
		}
	})
	return dir
}

// TestHangupWhileItStarts checks that SIGHUP does not end a target that reads its file.
func TestHangupWhileItStarts(t *testing.T) {
	beside(t)
	ownSocket(t)
	file := filepath.Join(t.TempDir(), "target.yaml")
	if err := unix.Mkfifo(file, 0o600); err != nil {
		t.Fatal(err)
	}
	s := startSeparate(t, "target", "--config", file)
	w, err := os.OpenFile(file, os.O_WRONLY, 0) // when it reads
	if err != nil {
		t.Fatal(err)
	}
	s.signal(t, unix.SIGHUP)
	_, err = fmt.Fprintf(w, "version: 1\nlisteners: [{id: 1, address: %s}]\nsubsystems:\n- nqn: %s\n  allow-any-host: true\n", loopbackAddress(), testNQN)
	if err := w.Close(); err != nil {
		t.Error(err)
	}
	if err != nil {
		t.Fatal(err)
	}
	s.out.await(t, "nvme connect")
}
