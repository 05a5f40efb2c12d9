package main

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sys/unix"
)

// TestFailedStart checks that a target that cannot start prints the reason in one line, and nothing else.
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

// TestHangupWhileItStarts checks that SIGHUP does not end a target that is reading its file.
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
