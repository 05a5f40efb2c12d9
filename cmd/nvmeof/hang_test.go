package main

import (
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// TestHungFileSystem checks that SIGTERM ends a target that opens, or is asked to open, a file on a file system that
// does not answer. It needs root, as most mounts do.
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
	// Before there is another target that could be addressed.
	serving.awaitHang(t)
	// Used by one process only: another one waiting for it too could not be killed.
	disk := hungFileSystem(t) + "/disk"
	ends := map[*separate]string{}
	for line, want := range map[string]string{
		target + hungFileSystem(t) + "/disk":                  "interrupted: a file or device that it reads or exports does not answer",
		"target --config " + document(disk):                   "interrupted: " + disk + " does not answer",
		"target check " + document(hungFileSystem(t)+"/disk"): "interrupted: a file or device that it exports does not answer",
	} {
		ends[startSeparate(t, words(line)...)] = want
	}
	var all sync.WaitGroup
	for _, s := range append(slices.Collect(maps.Keys(ends)), serving) {
		all.Go(func() {
			s.awaitHang(t)
			s.wantAwake(t)
			s.signal(t, unix.SIGTERM)
		})
	}
	all.Wait()
	for s, want := range ends {
		s.wantEnd(t, exitInterrupted, want)
	}
	serving.wantEnd(t, 0, "stopping") // after the time allowed for the addition in progress
	add.kill(t)
}

// awaitHang returns when a thread of the process waits for a file system that does not answer.
func (s *separate) awaitHang(t *testing.T) {
	for end := time.Now().Add(20 * time.Second); time.Now().Before(end); time.Sleep(20 * time.Millisecond) {
		all, _ := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/wchan", s.cmd.Process.Pid))
		for _, of := range all {
			if where, err := os.ReadFile(of); err == nil && strings.HasPrefix(string(where), "fuse") { // a function of the kernel
				return
			}
		}
	}
	t.Errorf("%v does not wait for a file system", s.cmd.Args)
}

// wantAwake checks that the main thread does not hang, since the kernel delivers the signals to it.
func (s *separate) wantAwake(t *testing.T) {
	t.Helper()
	stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", s.cmd.Process.Pid))
	if err != nil || strings.Contains(string(stat), ") D ") {
		t.Errorf("%v, the main thread hangs: %s", err, stat)
	}
}

// wantEnd waits until a process ends by itself.
func (s *separate) wantEnd(t *testing.T, code int, text string) {
	t.Helper()
	select {
	case err := <-s.ended:
		s.ended <- err
		if got := s.cmd.ProcessState.ExitCode(); got != code || !strings.Contains(s.errOut.String(), text) {
			t.Errorf("exit code %d, want %d and %q:\n%s", got, code, text, s.errOut)
		}
	case <-time.After(20 * time.Second):
		s.signal(t, unix.SIGQUIT) // prints the stacks of its goroutines
		time.Sleep(time.Second)
		t.Errorf("it does not end by a signal; it should, with %q:\n%s", text, s.errOut)
	}
}

// hungFileSystem mounts a file system without a server.
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
		_ = unix.Close(server) // waiting calls fail
		if err := unix.Unmount(dir, unix.MNT_DETACH); err != nil {
			t.Error(err)
		}
	})
	return dir
}
