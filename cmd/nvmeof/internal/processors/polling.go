package processors

import (
	"os"
	"runtime"
	"strings"

	"github.com/nvmeof-go/nvmeof/cmd/nvmeof/internal/failure"
	"github.com/nvmeof-go/nvmeof/nvmeof"
)

// PollingHelp says what --polling takes.
const PollingHelp = "what a thread without work does: adaptive (poll for 50 us to 0.8 ms, then sleep), always (poll), never (sleep at once), or auto (never on a machine with a single processor, else adaptive)"

// ParsePolling reads --polling. With a single processor a thread that polls keeps it from
// those whom he waits for: the kernel's network, rdma_rxe, the disk.
func ParsePolling(s string) (nvmeof.Polling, error) {
	switch s {
	case "auto":
		if singleProcessor() {
			return nvmeof.PollNever, nil
		}
		return nvmeof.PollAdaptive, nil
	case "adaptive":
		return nvmeof.PollAdaptive, nil
	case "always":
		return nvmeof.PollAlways, nil
	case "never":
		return nvmeof.PollNever, nil
	}
	return 0, failure.Usagef("--polling %s: want adaptive, always, auto or never", s)
}

// singleProcessor reports whether the machine has one. Somebody who lets a target have
// one of several to itself means it to poll: 4 KiB reads one at a time 31,000 to 64,000
// a second.
func singleProcessor() bool {
	online, err := os.ReadFile("/sys/devices/system/cpu/online")
	if err != nil {
		return runtime.NumCPU() == 1
	}
	return !strings.ContainsAny(string(online), ",-") // 0-3,6
}

// Need lets shards, each of which may keep a processor busy unless it never
// polls, leave the Go runtime one for the rest of the program. With a single processor
// they share it with those that make their work.
func Need(shards int, polling nvmeof.Polling) {
	if polling != nvmeof.PollNever {
		runtime.GOMAXPROCS(max(runtime.GOMAXPROCS(0), runtime.NumCPU()+shards))
	} else if singleProcessor() {
		queueBehindWakers()
	}
}
