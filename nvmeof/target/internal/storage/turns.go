package storage

import (
	"github.com/nvmeof-go/nvmeof/backend"
	"github.com/nvmeof-go/nvmeof/nvmeof/internal/list"
)

// A Party is the index, in a shard, of a host that shares the shard's lanes. Indexes are unique and as low as
// possible.
type Party uint16

// turns has the operations for which a store had no room, by party. They are submitted by deficit round robin, so
// that the outstanding operations of one party do not delay those of another. While there is room, none of it is
// used.
type turns struct {
	line    list.List[turn] // the parties that have operations
	parties []*turn         // by Party; created when first needed, and kept
	n       int             // number of operations
}

// A turn is the queue of a party.
type turn struct {
	operations list.List[Operation] // in units of cost
	credit     int64                // of cost
	begun      bool                 // it has received the credit of its current turn
	link       list.Link[turn]
}

// turnCost is how much cost a party may submit in its turn: that of an operation of 4 KiB. A larger operation
// waits for several turns.
const turnCost = 8 << 10

// cost returns an operation's share of a store's time, in bytes: those that it transfers, and a constant for the
// operation.
func (op *Operation) cost() int64 {
	n := int64(turnCost / 2)
	if op.Op == backend.OpRead || op.Op == backend.OpWrite {
		n += op.Length
	}
	return n
}

func (ts *turns) empty() bool { return ts.n == 0 }

// add adds an operation behind those of its party.
func (ts *turns) add(op *Operation) {
	for int(op.Party) >= len(ts.parties) {
		ts.parties = append(ts.parties, nil)
	}
	t := ts.parties[op.Party]
	if t == nil {
		t = &turn{}
		ts.parties[op.Party] = t
	}
	op.late = true
	ts.n++
	t.operations.Push(op, &op.link)
	if !t.link.Linked() {
		ts.line.Push(t, &t.link)
	}
}

// remove removes an operation.
func (ts *turns) remove(op *Operation) {
	t := ts.parties[op.Party]
	op.late = false
	ts.n--
	t.operations.Remove(&op.link)
	if t.operations.First() == nil {
		ts.line.Remove(&t.link)
		t.credit, t.begun = 0, false
	}
}

// next removes and returns the next operation, or returns nil if there is none.
func (ts *turns) next() *Operation {
	for {
		t := ts.line.First()
		if t == nil {
			return nil
		}
		if !t.begun {
			t.credit, t.begun = t.credit+turnCost, true
		}
		op := t.operations.First()
		if t.credit < op.cost() {
			t.begun = false
			ts.line.Remove(&t.link)
			ts.line.Push(t, &t.link)
			continue
		}
		t.credit -= op.cost()
		ts.remove(op)
		return op
	}
}
