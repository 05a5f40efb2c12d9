package main

import (
	"os"
	"path/filepath"
	"testing"
)

// TestMistypedSubsystem checks that every command that connects lists the existing subsystems.
func TestMistypedSubsystem(t *testing.T) {
	beside(t)
	s := startTarget(t, "--export", "mem:1MiB", "--allow-any-host")
	near := []string{"-n", "nqn.2026-11.org.example:dusk"}
	for _, line := range [][]string{
		s.at("connect", near...),
		s.at("attach", append(near, "--socket", filepath.Join(t.TempDir(), "s"))...),
		s.at("bench", append(near, "--runtime", "1", "--ctrl-loss-tmo", "0")...),
	} {
		command(t, line...).want(t, exitConnection, "no such subsystem", "Did you mean "+testNQN+"?")
	}
	command(t, s.at("connect", "-n", "nqn.1999-01.com.example.other:x")...).want(t, exitConnection, "There is: "+testNQN)
}

// TestPathAsSecret checks the error for a path given in place of a key.
func TestPathAsSecret(t *testing.T) {
	inOwnRunDir(t)
	file, _ := writeKey(t, "key", 0o600)
	command(t, "id-ctrl", "-a", "127.0.0.1", "-n", testNQN, "-S", file).want(t, exitUsage, "--dhchap-secret: ", "if it is in a file, file:PATH")
	command(t, "id-ctrl", "-a", "127.0.0.1", "-n", testNQN, "-S", "file:"+file, "-C", file).want(t, exitUsage, "--dhchap-ctrl-secret: ", "if it is in a file, file:PATH")
}

// TestConfigurationOfOthers checks that configurations of the kernel's target and of SPDK are recognized, and reported
// once with the remedy.
func TestConfigurationOfOthers(t *testing.T) {
	inOwnRunDir(t)
	dir := t.TempDir()
	for name, c := range map[string]struct{ text, want string }{
		"config.json": {`{"hosts": [], "ports": [{"portid": 1}], "subsystems": [{"nqn": "x", "attr": {"allow_any_host": "1"}}]}`, "nvmeof target import FILE"},
		"empty.json":  {`{"ports": [], "subsystems": []}`, "nvmeof target import FILE"},
		"spdk.json":   {`{"subsystems": [{"subsystem": "nvmf", "config": []}]}`, "configuration of SPDK"},
	} {
		file := filepath.Join(dir, name)
		if err := os.WriteFile(file, []byte(c.text), 0o600); err != nil {
			t.Fatal(err)
		}
		for _, line := range [][]string{{"target", "check", file}, {"target", "--config", file, "--socket", "none"}} {
			o := command(t, line...).want(t, exitUsage, file+":1:1: ", c.want)
			if errors := o.err.Error(); len(errors) > 300 {
				t.Errorf("%v: all that is not ours is named too: %s", line, errors)
			}
		}
	}
}

// TestRelativeConfiguration checks that a target started with a relative file name recognizes its file by any name,
// and tells users in other directories its path.
func TestRelativeConfiguration(t *testing.T) {
	beside(t)
	s := startTarget(t, "--export", "mem:1MiB", "--allow-any-host") // for its address
	s.end(t)
	dir := t.TempDir()
	file, socket := filepath.Join(dir, "t.yaml"), filepath.Join(dir, "s")
	text := "version: 1\nlisteners: [{id: 1, address: \"" + s.addr + ":4420\"}]\nsubsystems: [{nqn: \"" + testNQN + "\", allow-any-host: true, namespaces: [{nsid: 1, memory: {size: 1MiB}}]}]\n"
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	here, err := os.Getwd()
	if err != nil {
		t.Fatal(err)
	}
	relative, err := filepath.Rel(here, file)
	if err != nil {
		t.Fatal(err)
	}
	c := startCommand(t, "target", "--config", relative, "--socket", socket)
	c.out.await(t, "nvme connect")
	command(t, "namespace", "add", "2", "-n", testNQN, "--memory", "1MiB", "--socket", socket).want(t, 0)
	command(t, "target", "save", file, "--socket", socket).want(t, 0, "saved to "+file)
	command(t, "ls", "-o", "json", "--socket", socket).want(t, 0, `"file": "`+file+`"`)
	c.stop()
}
