package nvmeof

// Polling says when an idle loop of a host, a target or a front end stops polling and blocks.
type Polling uint8

const (
	PollAdaptive Polling = iota // some time after it last had work
	PollAlways                  // never: lowest latency, one busy core
	PollNever                   // at once: least CPU time; needed for fake clocks
)
