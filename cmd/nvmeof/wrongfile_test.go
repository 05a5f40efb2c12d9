package main

import (
	"os"
	"strings"
	"testing"

	"github.com/nvmeof-go/nvmeof/cmd/nvmeof/internal/failure"
)

// TestWrongFile checks that a file named by mistake in place of a configuration is not overwritten.
func TestWrongFile(t *testing.T) {
	inOwnRunDir(t)
	c := startConfigured(t, testConfig)
	c.out.await(t, "nvme connect")
	const nvmet = "../../nvmeof/config/testdata/nvmet.json"
	keys := t.TempDir()
	for name, text := range map[string]string{
		"disk.img": "", // exported by the configuration
		"copy.img": "QFI\xfb" + strings.Repeat("\x00", 100), "large.img": strings.Repeat("\x00", 17<<20),
		"notes.txt": "notes\n", "state": `{"version":1,"crc32c":"0","state":{}}`, "key": "DHHC-1:01:abcdefghijkl:\n",
	} {
		file := c.dir + "/" + name
		if text != "" {
			c.write(t, name, text)
		}
		before, err := os.Stat(file)
		if err != nil {
			t.Fatal(err)
		}
		for _, line := range [][]string{
			{"target", "export", "--output", file}, {"target", "export", "--format", "json", "--output", file},
			{"target", "import", "--key-dir", keys, "--output", file, nvmet}, {"target", "save", file},
		} {
			command(t, line...).want(t, exitFailed, "is it the right file?")
			if now, err := os.Stat(file); err != nil || !os.SameFile(before, now) || now.Size() != before.Size() {
				t.Errorf("%v has written to %s: %v", line, name, err)
			}
		}
	}
	for _, name := range []string{"new.yaml", "target.yaml", "broken.yaml"} {
		if name == "broken.yaml" {
			c.write(t, name, "version: 1\nlisteners: [\n")
		}
		command(t, "target", "export", "--output", c.dir+"/"+name).want(t, 0)
	}
}

// TestMistakenKey checks that a key in a wrong place is not shown, logged, or kept in the audit.
func TestMistakenKey(t *testing.T) {
	inOwnRunDir(t)
	file, key := writeKey(t, "key", 0o600)
	c := startConfigured(t, testConfig+"audit: {file: DIR/audit}\n")
	c.out.await(t, "nvme connect")
	for _, line := range []string{
		"target check FILE", "target --config FILE --socket none", "target apply FILE", "target diff FILE", "target save FILE", "namespace add 9 -n NQN --memory 1MiB --save FILE",
		"host add h1 -n NQN --key-file KEY", "host add h1 -n NQN --key-file /KEY", "target --listen 127.0.0.1 --nqn NQN --export mem:1MiB --socket none --allow-host h1,dhchap-key-file=KEY",
	} {
		o := command(t, words(strings.NewReplacer("FILE", file, "KEY", key, "NQN", testNQN).Replace(line))...)
		if o.code() == 0 || strings.Contains(o.out+o.errOut+failure.Text(o.err), key[10:40]) {
			t.Errorf("%s: exit code %d, %s%s%v", line, o.code(), o.out, o.errOut, o.err)
		}
	}
	c.end(t)
	audit, err := os.ReadFile(c.dir + "/audit")
	if err != nil || strings.Contains(string(audit), key[10:40]) || !strings.Contains(string(audit), "addNamespace") {
		t.Errorf("the audit has, %v:\n%s", err, audit)
	}
	if strings.Contains(c.errOut.String(), key[10:40]) {
		t.Errorf("the log has the key:\n%s", c.errOut)
	}
}

// TestExposedKey checks that a key that others may read is reported to the user who names its file, and logged once.
func TestExposedKey(t *testing.T) {
	inOwnRunDir(t)
	file, _ := writeKey(t, "key", 0o644)
	c := startConfigured(t, testConfig)
	c.out.await(t, "nvme connect")
	warning := "warning: " + file + " contains a secret, but other users may read it (-rw-r--r--): chmod 600 " + file
	add := []string{"host", "add", "h1", "-n", testNQN, "--key-file", file}
	command(t, append(add, "--dry-run")...).want(t, 0, "warning: host h1: "+strings.TrimPrefix(warning, "warning: "))
	command(t, add...).want(t, 0, warning)
	c.errOut.await(t, "chmod 600 ")
	checked := c.write(t, "keys.yaml", strings.Replace(testConfig, "allow-any-host: true", "hosts: [{nqn: h1, key-file: "+file+"}]", 1))
	command(t, "target", "check", checked).want(t, 0, "subsystems[0].hosts[0].key-file: "+file+" contains a secret")
	c.end(t)
	if n := strings.Count(c.errOut.String(), "chmod 600 "); n != 1 {
		t.Errorf("it is logged %d times:\n%s", n, c.errOut)
	}
}
