package nvmeof

// Polling says when an idle loop of a host, a target or a front end blocks.
type Polling uint8

const (
	PollAdaptive Polling = iota // after the last useful turn it polls for a while first
	PollAlways                  // never: lowest latency, one busy core
	PollNever                   // at once: lowest use of CPU, and for fake clocks
)
