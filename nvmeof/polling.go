package nvmeof

// Polling says when an idle loop of a host, a target or a front end blocks.
type Polling uint8

const (
	PollAdaptive Polling = iota // after polling for a while since the last useful turn
	PollAlways                  // never: lowest latency, one busy core
	PollNever                   // at once: lowest use of CPU, and for fake clocks
)
