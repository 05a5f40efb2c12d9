package perftest

import "time"

// A Verb is the operation that a test measures.
type Verb int

// The verbs of the tests.
const (
	Send Verb = iota
	Write
	Read
	FetchAdd
	CompareSwap
)

// AtomicSize is how many bytes an atomic operation changes.
const AtomicSize = 8

// Atomic reports whether the verb is one of the atomic operations.
func (v Verb) Atomic() bool { return v == FetchAdd || v == CompareSwap }

// A Test is one of perftest's programs.
type Test struct {
	Verb    Verb
	Latency bool // ib_*_lat instead of ib_*_bw
}

// AfterConnecting returns how many destinations are exchanged after the connection for the data is made and before the
// data.
func (t Test) AfterConnecting() int {
	if t.Latency || t.Verb == Send {
		return 5
	}
	return 4
}

// OneSided reports whether only the client measures.
func (t Test) OneSided() bool {
	return t.Verb == Read || t.Verb.Atomic() || t.Verb == Write && !t.Latency
}

// Reported reports whether the client sends its results to the server.
func (t Test) Reported() bool { return t.OneSided() && !t.Latency }

// GoodBye reports whether the sides exchange destinations again at the end. In ib_write_lat each side recognizes the
// end by the last message.
func (t Test) GoodBye() bool { return !t.Latency || t.Verb != Write }

// half returns the divisor of the time between two requests that gives the time of one message: tests in which both
// sides send measure round trips.
func (t Test) half() time.Duration {
	if t.OneSided() {
		return 1
	}
	return 2
}

// name returns the name of the test in the reports.
func (t Test) name() string {
	verb := map[Verb]string{
		Send: "Send", Write: "RDMA_Write", Read: "RDMA_Read",
		FetchAdd: "Atomic FETCH_AND_ADD", CompareSwap: "Atomic CMP_AND_SWAP",
	}[t.Verb]
	if t.Latency {
		return verb + " Latency Test"
	}
	return verb + " BW Test"
}
