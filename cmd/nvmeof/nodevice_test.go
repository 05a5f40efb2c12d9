package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// TestNoDevice checks the error of a target whose address does not belong to this machine, or is in use.
func TestNoDevice(t *testing.T) {
	s := startTarget(t, "--export", "mem:1MiB", "--allow-any-host")
	for _, c := range []struct{ options, want string }{
		{"--listen 192.0.2.1", "192.0.2.1"},
		{"--listen " + s.addr, s.addr},
		{"--listen fe80::1", "fe80::1"},
		{"--listen 192.0.2.1 --listen 192.0.2.2", "192.0.2."},
	} {
		t.Run(c.options, func(t *testing.T) {
			o := command(t, words("target "+c.options+" --nqn "+testNQN+" --export mem:1MiB --allow-any-host")...)
			if code := exitCode(o.err); code != exitFailed && code != exitUsage || !strings.Contains(o.err.Error(), c.want) {
				t.Errorf("exit code %d: %v", code, o.err)
			}
		})
	}
}

// TestConfiguredWithoutDevice checks that a target that waits for its only address can be used otherwise, and ends
// without an error.
func TestConfiguredWithoutDevice(t *testing.T) {
	c := startConfigured(t, strings.Replace(testConfig, "ADDR", "192.0.2.1", 1))
	c.out.await(t, "controlled at")
	for _, line := range []string{
		"ns pause 1 -n NQN --limit 2s", "ns resume 1 -n NQN", "ns add 3 -n NQN --memory 1MiB", "ns set 2 -n NQN --size 16MiB",
		"ns remove 1 -n NQN", "subsystem set NQN --serial x", "subsystem remove NQN",
	} {
		command(t, words(strings.ReplaceAll(line, "NQN", testNQN))...).want(t, 0)
	}
	command(t, "ls").want(t, 0, "192.0.2.1:4420")
}

// TestNotRight checks that an invalid namespace waits, with its reason, while the rest is served, and that target
// check reports it.
func TestNotRight(t *testing.T) {
	beside(t)
	text := strings.Replace(testConfig, "path: DIR/disk.img, size: 8MiB", "path: DIR/disk.img", 1)
	c := configure(t, text)
	disk := c.write(t, "disk.img", "")
	command(t, "target", "check", c.file).want(t, 0, "warning: "+c.file+": subsystems[0].namespaces[1]: open store "+disk+": file has 0 bytes",
		"the namespace waits until this is corrected", "is valid: 1 listener(s)")
	c.start(t)
	c.out.await(t, "nvme connect")
	command(t, "ls").want(t, 0, "WAITING: open store "+disk+": file has 0 bytes, less than one block of 4096")
	command(t, c.at("list")...).want(t, 0, "16.78  MB    512   B +  0 B")
	if err := os.Truncate(disk, 8<<20); err != nil {
		t.Fatal(err)
	}
	c.errOut.await(t, "namespace is served, since its store is available")
	command(t, c.at("list")...).want(t, 0, "16.78  MB    512   B +  0 B", "8.39  MB      4 KiB +  0 B")
}

// TestTakenSocket checks that a second target that is started by mistake changes nothing.
func TestTakenSocket(t *testing.T) {
	c := startConfigured(t, testConfig)
	c.out.await(t, "nvme connect")
	other := c.write(t, "other.yaml", strings.NewReplacer("disk.img", "other.img", "address: ADDR", "address: SECOND").Replace(testConfig))
	command(t, "target", "--config", other).want(t, exitFailed, "another target uses")
	if _, err := os.Stat(filepath.Join(c.dir, "other.img")); err == nil {
		t.Error("the second target made its file")
	}
	command(t, "ls").want(t, 0, "disk.img")
}

// TestSmallQueues checks that the depth of I/O queues does not limit the admin queue.
func TestSmallQueues(t *testing.T) {
	c := startConfigured(t, strings.Replace(testConfig, "{shards: 1, polling", "{shards: 1, queue-depth: 2, polling", 1))
	c.out.await(t, "nvme connect")
	command(t, c.at("list")...).want(t, 0, "16.78  MB    512   B +  0 B")
	command(t, c.at("read", "-n", testNQN, "-z", "512")...).want(t, 0)
}
