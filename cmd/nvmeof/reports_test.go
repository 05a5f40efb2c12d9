package main

import (
	"bytes"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// TestConsoleForeseen checks that target check reports what a console lacks.
func TestConsoleForeseen(t *testing.T) {
	c := configure(t, testConfig+"console: {listen: \"127.0.0.1:9430\", tokens: DIR/tokens}\n")
	checked := command(t, "target", "check", c.file)
	checked.want(t, 0, " is valid: ")
	if want := "tokens: no such file or directory: create it with nvmeof token create"; !strings.Contains(checked.errOut, want) || !strings.Contains(checked.errOut, "no user can log in until") {
		t.Errorf("it does not say %q: %s", want, checked.errOut)
	}
	command(t, "token", "create", "alice", "--file", filepath.Join(c.dir, "tokens")).want(t, 0)
	if checked := command(t, "target", "check", c.file); strings.Contains(checked.errOut, "tokens") {
		t.Errorf("with its file: %s", checked.errOut)
	}
}

// TestConsoleForeseenBeside checks that target check reports problems with the console's files even if the address is
// used by the running target, which is to be restarted with them.
func TestConsoleForeseenBeside(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	c := configure(t, testConfig+"console: {listen: \""+l.Addr().String()+"\", tokens: DIR/tokens}\n")
	command(t, "target", "check", c.file).want(t, 0, "address already in use", "tokens: no such file or directory", "no user can log in until")
}

// TestEventsNotRight checks that a target whose events or audit cannot be written serves all the same, reports that in
// its log, its events and ls, and leaves existing files unchanged. target check reports it before.
func TestEventsNotRight(t *testing.T) {
	beside(t)
	c := configure(t, testConfig+"events: {file: DIR/events}\naudit: {file: DIR/none/audit}\n")
	damaged := append(make([]byte, 1024), "what events were"...)
	path := filepath.Join(c.dir, "events")
	if err := os.WriteFile(path, damaged, 0o600); err != nil {
		t.Fatal(err)
	}
	const notLog = "it is not a log of events, or its first line is damaged"
	checked := command(t, "target", "check", c.file)
	checked.want(t, 0, " is valid: ")
	for _, want := range []string{": events.file: events in " + path + ": " + notLog, ": audit.file: "} {
		if !strings.Contains(checked.errOut, want) {
			t.Errorf("target check does not say %q: %s", want, checked.errOut)
		}
	}
	c.start(t)
	c.out.await(t, "nvme connect")
	command(t, "ls").want(t, 0, "TROUBLE: "+path+": events are kept only in memory", notLog, "TROUBLE: "+filepath.Join(c.dir, "none", "audit")+": audit: lines are lost until")
	command(t, "events").want(t, 0, "events are kept only in memory", "audit: lines are lost until the file can be opened")
	if said := c.errOut.String(); strings.Count(said, "events are not written") != 1 || strings.Count(said, "audit: lines are lost until") != 1 {
		t.Errorf("the log says\n%s", said)
	}
	if err := os.Mkdir(filepath.Join(c.dir, "none"), 0o700); err != nil {
		t.Fatal(err)
	}
	command(t, "namespace", "set", "2", "-n", testNQN, "--read-only").want(t, 0)
	c.end(t)
	if text, err := os.ReadFile(filepath.Join(c.dir, "none", "audit")); err != nil || bytes.Count(text, []byte{'\n'}) != 1 {
		t.Errorf("the audit has %q, %v", text, err)
	}
	if got, err := os.ReadFile(path); err != nil || !bytes.Equal(got, damaged) {
		t.Errorf("the file is written over: %q, %v", got, err)
	}
}

// TestFilesForTwoThings checks that target check rejects a file with two uses, by whatever names. A target started
// with it writes no line to an exported file, or to its own configuration.
func TestFilesForTwoThings(t *testing.T) {
	beside(t)
	for reports, want := range map[string]string{
		"audit: {file: DIR/target.yaml}\n":  "audit.file: DIR/target.yaml is also used as the configuration file; name another file",
		"audit: {file: DIR/link}\n":         "audit.file: DIR/link is the same file as DIR/disk, which is used as subsystems[0].namespaces[0]; name another file",
		"events: {file: DIR/link}\n":        "events.file: DIR/link is the same file as DIR/disk, which is used as subsystems[0].namespaces[0]; name another file",
		"events: {file: DIR/target.yaml}\n": "events.file: DIR/target.yaml is also used as the configuration file; name another file",
	} {
		c := configure(t, testConfig)
		text := strings.Replace(testConfig, "    namespaces:\n", "    namespaces:\n      - {nsid: 3, file: {path: DIR/disk}}\n", 1)
		c.file = c.write(t, "target.yaml", text+reports)
		disk := filepath.Join(c.dir, "disk")
		if err := os.WriteFile(disk, make([]byte, 1<<16), 0o600); err != nil {
			t.Fatal(err)
		}
		if err := os.Link(disk, filepath.Join(c.dir, "link")); err != nil {
			t.Fatal(err)
		}
		before, err := os.ReadFile(c.file)
		if err != nil {
			t.Fatal(err)
		}
		command(t, "target", "check", c.file).want(t, exitUsage, strings.ReplaceAll(want, "DIR", c.dir))
		c.start(t)
		c.out.await(t, "nvme connect")
		command(t, "ls").want(t, 0, "TROUBLE: ")
		command(t, "namespace", "set", "2", "-n", testNQN, "--read-only").want(t, 0)
		c.end(t)
		if now, err := os.ReadFile(c.file); err != nil || !bytes.Equal(now, before) {
			t.Errorf("%sthe configuration is\n%s, %v", reports, now, err)
		}
		if now, err := os.ReadFile(disk); err != nil || !bytes.Equal(now, make([]byte, 1<<16)) {
			t.Errorf("%sthe disk has %d bytes, %v", reports, len(now), err)
		}
	}
}
