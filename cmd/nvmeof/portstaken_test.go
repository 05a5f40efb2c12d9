package main

import (
	"net"
	"strings"
	"testing"
)

// TestPortsTaken checks that target check tests the addresses of metrics and console, without which a target does not
// start.
func TestPortsTaken(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	c := configure(t, testConfig)
	tokens := c.dir + "/tokens"
	command(t, "token", "create", "alice", "--role", "read", "--file", tokens).want(t, 0)
	check := func(metrics, console string, texts ...string) {
		t.Helper()
		file := c.write(t, "ports.yaml", strings.ReplaceAll(testConfig, "ADDR", "127.0.0.1")+"metrics: {listen: \""+metrics+"\"}\nconsole: {listen: \""+console+"\", tokens: "+tokens+"}\n")
		command(t, "target", "check", file).want(t, 0, append(texts, "a target does not start until it is valid")...)
	}
	taken := l.Addr().String()
	check(taken, "127.0.0.1:1", "metrics: listen tcp "+taken, "unless it is used by this target, which runs")
	check("127.0.0.1:2", taken, "console: listen tcp "+taken, "another program uses it; choose another port")
	check("192.0.2.1:9420", "127.0.0.1:2", "metrics: listen tcp 192.0.2.1:9420", "it is not an address of this machine")
}
