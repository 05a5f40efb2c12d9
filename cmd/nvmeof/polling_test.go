package main

import (
	"testing"

	"github.com/nvmeof-go/nvmeof/nvmeof/shard"
)

func TestPolling(t *testing.T) {
	auto := shard.PollAdaptive
	if singleProcessor() {
		auto = shard.PollNever
	}
	for s, want := range map[string]shard.Polling{"auto": auto, "adaptive": shard.PollAdaptive, "always": shard.PollAlways, "never": shard.PollNever} {
		if got, err := parsePolling(s); err != nil || got != want {
			t.Errorf("--polling %s: %v, %v; want %v", s, got, err, want)
		}
	}
	command(t, "target", "--listen", "127.0.0.1", "--nqn", testNQN, "--export", "mem:1MiB", "--allow-any-host", "--polling", "often").want(t, exitUsage, "--polling often", "never")
}
