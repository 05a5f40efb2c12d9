package main

import (
	"path/filepath"
	"strings"
	"testing"
)

// TestLateKey checks that a target starts without the key of a host, reports that, and admits the host when the key
// exists.
func TestLateKey(t *testing.T) {
	beside(t)
	c := startConfigured(t, strings.Replace(testConfig, "allow-any-host: true", "hosts: [{nqn: '"+keyedHost+"', key-file: DIR/key}]", 1))
	c.out.await(t, "serving 2 namespace(s) of "+testNQN+"\nwaiting: host "+keyedHost+": key of host "+keyedHost+": open "+c.dir+"/key: no such file")
	c.out.await(t, "nvme connect")
	command(t, "ls").want(t, 0, keyedHost+" write, with a key, WAITING: key of host", c.dir+"/key: no such file")
	command(t, "target", "check", c.file).want(t, 0, "warning: ", "/key: no such file", "the host cannot connect until this is corrected; others can")
	command(t, "key", "reread").want(t, exitFailed, "no key was read again, and the previous keys are kept: key of host")
	c.write(t, "key", command(t, "gen-dhchap-key").want(t, 0).out)
	c.errOut.await(t, "key of a host can be read again")
	if text := command(t, "ls").want(t, 0).out; strings.Contains(text, "WAITING") {
		t.Error(text)
	}
}

// TestApplyCutShort checks that a document that ends within a line, or at the end of one, is not applied if connected
// hosts would lose something, unless the user confirms that it is complete.
func TestApplyCutShort(t *testing.T) {
	beside(t)
	c := startConfigured(t, testConfig)
	c.out.await(t, "nvme connect")
	out, errOut := newOutput(), newOutput()
	stop, ended := begin(t, out, errOut, "connect", "-t", "rdma", "-a", c.addr, "-n", testNQN)
	defer func() {
		stop()
		<-ended
	}()
	out.await(t, "connecting to device")
	cut := c.write(t, "cut.yaml", testConfig[:len(testConfig)-len("    block-size: 4096\n")])
	command(t, "target", "check", cut).want(t, 0, "warning: "+cut+":15:", "the file ends within this line, and may be truncated")
	command(t, "target", "apply", cut).want(t, exitUsage, "may be truncated", "or give --force; nothing was changed")
	command(t, "target", "apply", "--force", "--dry-run", cut).want(t, 0, "would remove namespace 2", "block-size")
	cut = c.write(t, "cut.yaml", testConfig[:strings.Index(testConfig, "      - nsid: 2")])
	const inUse = "removes what connected hosts use: namespace 2 of " + testNQN + ", of host "
	command(t, "target", "apply", cut, "--dry-run").want(t, exitFailed, "would remove namespace 2", inUse, "Check that the document is complete; if this is intended, use --force")
	if got := command(t, "target", "apply", cut).want(t, exitFailed, inUse, "Check that the document is complete; if this is intended, use --force"); got.out != "" {
		t.Errorf("it shows %q, which is not done", got.out)
	}
	command(t, "target", "apply", "--force", cut).want(t, 0, "remove namespace 2")
	whole := c.write(t, "whole.json", command(t, "target", "export", "--format", "json", "--from", filepath.Join(c.dir, "target.yaml")).want(t, 0).out)
	command(t, "target", "apply", whole).want(t, 0, "add namespace 2")
}
