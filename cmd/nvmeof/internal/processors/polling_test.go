package processors

import (
	"testing"

	"github.com/nvmeof-go/nvmeof/nvmeof"
)

func TestPolling(t *testing.T) {
	auto := nvmeof.PollAdaptive
	if singleProcessor() {
		auto = nvmeof.PollNever
	}
	for s, want := range map[string]nvmeof.Polling{"auto": auto, "adaptive": nvmeof.PollAdaptive, "always": nvmeof.PollAlways, "never": nvmeof.PollNever} {
		if got, err := ParsePolling(s); err != nil || got != want {
			t.Errorf("--polling %s: %v, %v; want %v", s, got, err, want)
		}
	}
}
