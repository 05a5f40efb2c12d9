package main

import (
	"runtime"

	"github.com/nvmeof-go/nvmeof/nvmeof/shard"
)

const pollingHelp = "what a thread without work does: adaptive (poll for 50 us to 0.8 ms, then sleep), always (poll), never (sleep at once), or auto (never with a single processor, else adaptive)"

// parsePolling reads --polling. With a single processor whoever polls keeps it from
// those whom he waits for: the kernel's network, rdma_rxe, the disk.
func parsePolling(s string) (shard.Polling, error) {
	switch s {
	case "auto":
		if runtime.NumCPU() == 1 {
			return shard.PollNever, nil
		}
		return shard.PollAdaptive, nil
	case "adaptive":
		return shard.PollAdaptive, nil
	case "always":
		return shard.PollAlways, nil
	case "never":
		return shard.PollNever, nil
	}
	return 0, usage("--polling %s: it is one of adaptive, always, auto, never", s)
}
