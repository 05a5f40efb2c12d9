package main

import "testing"

func TestPollingOption(t *testing.T) {
	command(t, "target", "--listen", "127.0.0.1", "--nqn", testNQN, "--export", "mem:1MiB", "--allow-any-host", "--polling", "often").want(t, exitUsage, "--polling often", "never")
}
