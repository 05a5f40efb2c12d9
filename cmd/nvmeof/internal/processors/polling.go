package processors

import (
	"os"
	"runtime"
	"strings"

	"github.com/nvmeof-go/nvmeof/cmd/nvmeof/internal/failure"
	"github.com/nvmeof-go/nvmeof/nvmeof"
)

// PollingHelp is the help text of --polling.
const PollingHelp = "what a thread without work does: adaptive (poll for 50 us to 0.8 ms, then sleep), always (poll), never (sleep at once), or auto (never on a machine with a single processor, else adaptive)"

// ParsePolling parses the value of --polling. On a single processor, a polling thread would keep the processor from
// the threads that it waits for: those of the kernel's network, rdma_rxe and the disk.
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

// singleProcessor reports whether the machine has a single processor. A process restricted to one of several
// processors is meant to poll there: 4 KiB reads at queue depth 1 then rise from 31,000 to 64,000 a second.
func singleProcessor() bool {
	online, err := os.ReadFile("/sys/devices/system/cpu/online")
	if err != nil {
		return runtime.NumCPU() == 1
	}
	return !strings.ContainsAny(string(online), ",-") // 0-3,6
}

// Need raises GOMAXPROCS so that the rest of the program has a processor beside shards threads, each of which may
// occupy one unless it never polls. With a single processor, the threads instead yield to those that give them work.
func Need(shards int, polling nvmeof.Polling) {
	if polling != nvmeof.PollNever {
		runtime.GOMAXPROCS(max(runtime.GOMAXPROCS(0), runtime.NumCPU()+shards))
	} else if singleProcessor() {
		queueBehindWakers()
	}
}
