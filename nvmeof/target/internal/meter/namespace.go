package meter

import (
	"slices"

	"github.com/nvmeof-go/nvmeof/capsule"
	"github.com/nvmeof-go/nvmeof/internal/latency"
)

// A Namespace counts the commands of one namespace in one shard. The zero value is ready for use; the histograms
// of each kind of command are allocated with the first command of the kind.
type Namespace struct {
	ops           [Ops]*times
	Read, Written uint64 // bytes of successful commands
	InFlight      int    // commands that have entered and have not completed
	errors        []Failed
}

// times has the durations of commands, and of the part in the store.
type times struct{ command, store latency.Histogram }

// Failed counts the commands that failed with a status.
type Failed struct {
	Status capsule.Status // without Do Not Retry, More and the retry delay
	N      uint64
}

// maxErrors limits the number of different statuses. It is far above the number that a target sends.
const maxErrors = 64

// count counts a completed command.
func (n *Namespace) count(op Op, took, stored int64) {
	t := n.ops[op]
	if t == nil {
		t = new(times)
		n.ops[op] = t
	}
	t.command.Observe(took)
	if stored >= 0 {
		t.store.Observe(stored)
	}
}

// Fail counts the status of a command that failed.
func (n *Namespace) Fail(s capsule.Status) { n.fail(Failed{s.Code(), 1}) }

func (n *Namespace) fail(f Failed) {
	i := slices.IndexFunc(n.errors, func(o Failed) bool { return o.Status == f.Status })
	if i < 0 {
		if len(n.errors) == maxErrors {
			return
		}
		i, n.errors = len(n.errors), append(n.errors, Failed{Status: f.Status})
	}
	n.errors[i].N += f.N
}

// Add adds the counters of the same namespace in another shard.
func (n *Namespace) Add(o *Namespace) {
	for i, t := range o.ops {
		if t == nil {
			continue
		}
		if n.ops[i] == nil {
			n.ops[i] = new(times)
		}
		n.ops[i].command.Add(&t.command)
		n.ops[i].store.Add(&t.store)
	}
	n.Read += o.Read
	n.Written += o.Written
	n.InFlight += o.InFlight
	for _, f := range o.errors {
		n.fail(f)
	}
}

// Times returns the durations of the commands of a kind, and of the part in the store for those that were
// submitted to it; nil if there were no commands.
func (n *Namespace) Times(op Op) (command, store *latency.Histogram) {
	if t := n.ops[op]; t != nil {
		return &t.command, &t.store
	}
	return nil, nil
}

// Errors returns the statuses with which commands failed.
func (n *Namespace) Errors() []Failed { return slices.Clone(n.errors) }
