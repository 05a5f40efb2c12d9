package main

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/nvmeof-go/nvmeof/nvmeof/events"
)

// TestEvents checks that events are shown, also across a restart, and that a follower sees each exactly once.
func TestEvents(t *testing.T) {
	beside(t)
	c := startConfigured(t, testConfig+"events: {file: DIR/events, entries: 100}\n")
	c.out.await(t, "nvme connect")
	out, errOut := newOutput(), newOutput()
	stop, ended := begin(t, out, errOut, "events", "--follow", "-o", "json")
	out.await(t, `"kind":"start"`)
	id := []string{"id-ctrl", "-t", "rdma", "-a", c.addr, "-n"}
	command(t, append(id, testNQN)...).want(t, 0)
	command(t, append(id, "nqn.2026-11.org.example:none")...).want(t, exitConnection)
	out.await(t, "connect refused: ")
	command(t, "namespace", "add", "3", "-n", testNQN, "--memory", "1MiB").want(t, 0)
	out.await(t, "add namespace 3")
	c.end(t)
	errOut.await(t, "the target has ended; waiting for it")
	c.start(t)
	c.out.await(t, "nvme connect")
	command(t, "namespace", "add", "4", "-n", testNQN, "--memory", "1MiB").want(t, 0)
	out.await(t, "add namespace 4")
	stop()
	<-ended

	var all []events.Event
	text := command(t, "events", "-o", "json").want(t, 0).out
	if err := json.Unmarshal([]byte(text), &all); err != nil {
		t.Fatal(err)
	}
	kinds := map[events.Kind]int{}
	for i, e := range all {
		kinds[e.Kind]++
		if e.Seq != uint64(i+1) {
			t.Errorf("event %d has the number %d", i+1, e.Seq)
		}
	}
	for _, k := range []events.Kind{events.Start, events.Stop, events.Connect, events.Disconnect, events.Refused, events.Listener, events.Namespace, events.Change} {
		if kinds[k] == 0 {
			t.Errorf("no %s in\n%s", k, text)
		}
	}
	if kinds[events.Start] != 2 || kinds[events.Unclean] != 0 {
		t.Errorf("starts: %v", kinds)
	}
	var seq uint64
	for line := range strings.Lines(out.String()) {
		var e events.Event
		if err := json.Unmarshal([]byte(line), &e); err != nil || e.Seq != seq+1 {
			t.Errorf("after %d: %s (%v)", seq, line, err)
		}
		seq = e.Seq
	}
	command(t, "events").want(t, 0, " warning refused     connect refused: ", " host=nqn.", " subsystem="+testNQN, "info    stop")
	command(t, "events", "--since", "0s").want(t, 0, "")
	command(t, "events", "--since", "2020-01-01T00:00:00Z", "-o", "yaml").want(t, 0, "kind: start")
	command(t, "events", "--since", "now").want(t, exitUsage, "--since now: want a duration")
	command(t, "events", "-f", "-o", "yaml").want(t, exitUsage, "table or json")
	command(t, "target", "--config", c.write(t, "two.yaml", strings.Replace(testConfig, "ADDR", "SECOND", 1)+"events: {file: DIR/events}\n"), "--socket", "none").
		want(t, exitFailed, "another target uses it")
}
