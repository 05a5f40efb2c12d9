package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

const servedConfig = `version: 1
limits: {shards: 1, polling: never}
listeners:
  - id: 1
    address: ADDR
subsystems:
  - nqn: nqn.2026-11.org.example:disk
    allow-any-host: true
    namespaces:
      - nsid: 1
        memory: {size: 16MiB}
      - nsid: 2
        memory: {size: 1MiB}
      - nsid: 3
        file: {path: DIR/ro.img, read-only: true}
      - nsid: 4
        file: {path: DIR/four.img, size: 2MiB}
`

// TestServedStates checks that ls, lists, show and top say what keeps hosts from a namespace, and its size as hosts
// see it, which the configuration may not contain.
func TestServedStates(t *testing.T) {
	beside(t)
	c := configure(t, servedConfig)
	for name, size := range map[string]int64{"ro.img": 3 << 20, "four.img": 2 << 20} {
		if err := os.WriteFile(filepath.Join(c.dir, name), make([]byte, size), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	c.start(t)
	c.out.await(t, "nvme connect -t rdma -a "+c.addr)
	run := func(line string, texts ...string) string {
		t.Helper()
		return command(t, words(strings.NewReplacer("NQN", testNQN, "AT", "-t rdma -a "+c.addr+" -n "+testNQN).Replace(line))...).want(t, 0, texts...).out
	}
	want := func(text, start string, parts ...string) { // in the line that begins with start
		t.Helper()
		for l := range strings.Lines(text) {
			if !strings.HasPrefix(strings.TrimSpace(l), start) {
				continue
			}
			for _, part := range parts {
				if !strings.Contains(l, part) {
					t.Errorf("%q has no %q", l, part)
				}
			}
			return
		}
		t.Errorf("no line begins with %q in\n%s", start, text)
	}
	want(run("ls"), "3 file", "ro.img 3MiB, read-only, ana-group")
	list := run("ns list -n NQN")
	want(list, "3 ", "3MiB", "512", "read-only", "ready", "-5") // a UUID
	want(list, "1 ", "write ", "ready")

	run("ns pause 1 -n NQN --limit 25s", "pause namespace 1 of "+testNQN+": its commands wait for at most 25s")
	want(run("ls"), "1 memory", "16MiB, paused, ana-group")
	want(run("ns list -n NQN"), "1 ", "write ", "paused")
	run("ns show 1 -n NQN", "memory:", "# hosts find: 16MiB, blocks of 512 bytes, UUID ", "paused")
	run("top --once -o json", `"paused": true`)
	run("ns resume 1 -n NQN", "resume namespace 1 of "+testNQN)
	if strings.Contains(run("ls"), "paused") {
		t.Error("a namespace is paused after it was resumed")
	}

	run("set-feature AT -f 0x84 -V 1 --namespace-id 1")
	run("ls", "16MiB, write-protected by a host until a host ends it or the target ends, ana-group")
	run("ns set 1 -n NQN --read-only=false", "nothing to change", "to end that, run on a host that may write to it: nvme set-feature -n 1 -f 0x84 -v 0")
	run("set-feature AT -f 0x84 -V 0 --namespace-id 1")
	run("set-feature AT -f 0x84 -V 2 --namespace-id 2")
	want(run("ns list -n NQN"), "2 ", "write-protected by a host until the target ends")
	run("ns set 2 -n NQN --read-only=false", "nothing to change", "a host has write-protected it until the target ends; a restart ends that")
	run("ns set 3 -n NQN --read-only=false", "its file, device or image is read-only")

	if err := os.Truncate(filepath.Join(c.dir, "four.img"), 5<<20); err != nil {
		t.Fatal(err)
	}
	eventually(t, "four.img 5MiB, ana-group", "ls")
	want(run("ns list -n NQN"), "4 ", "5MiB")
	run("ns show 4 -n NQN", "size: 2MiB", "# hosts find: 5MiB")
}

// TestServedLists checks that lists for programs contain for each namespace what hosts see, and its state.
func TestServedLists(t *testing.T) {
	beside(t)
	c := configure(t, servedConfig)
	if err := os.WriteFile(filepath.Join(c.dir, "four.img"), make([]byte, 2<<20), 0o600); err != nil {
		t.Fatal(err)
	}
	c.start(t)
	c.out.await(t, "nvme connect -t rdma -a "+c.addr)
	command(t, words("ns list -n "+testNQN+" -o yaml")...).want(t, 0, "- nsid: 1\n  memory:\n    size: 16MiB\n  state: ready\n  served:\n", "    block-size: 512\n    uuid: ")
	command(t, words("ns list -n "+testNQN+" -o json")...).want(t, 0, `"state": "ready"`, `"size": 2097152`, `"state": "waiting"`, `"why": "`, "ro.img")
}
