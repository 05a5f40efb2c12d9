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

// A Test is one of the programs.
type Test struct {
	Verb    Verb
	Latency bool // ib_*_lat instead of ib_*_bw
}

// AfterConnecting is how many destinations are sent between the connection that carries
// the data and the data.
func (t Test) AfterConnecting() int {
	if t.Latency || t.Verb == Send {
		return 5
	}
	return 4
}

// OneSided reports whether the client alone measures.
func (t Test) OneSided() bool {
	return t.Verb == Read || t.Verb.Atomic() || t.Verb == Write && !t.Latency
}

// Reported reports whether the client sends the server what it measured.
func (t Test) Reported() bool { return t.OneSided() && !t.Latency }

// GoodBye reports whether the ends exchange destinations once more at the end: with
// ib_write_lat each knows by the last message that came.
func (t Test) GoodBye() bool { return !t.Latency || t.Verb != Write }

// half is by how much a time between two requests is divided for the time of one message: the
// tests in which both ends send measure there and back.
func (t Test) half() time.Duration {
	if t.OneSided() {
		return 1
	}
	return 2
}

// name is the test's as the reports have it.
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
