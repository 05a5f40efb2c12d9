package storage

import (
	"github.com/nvmeof-go/nvmeof/backend"
	"github.com/nvmeof-go/nvmeof/nvmeof/internal/list"
)

// A Party is one of those who share the lanes of a shard, a host, by its index there. Those
// that are in use are low numbers, and no two parties have the same.
type Party uint16

// turns are the operations for which a store had no room, by party. They are given to the
// store for each party in turn (deficit round robin), so that what one has outstanding
// does not decide how soon another's come. Nothing of it is used while there is room.
type turns struct {
	line    list.List[turn] // of those that have operations
	parties []*turn         // by Party; made when first needed, and kept
	n       int             // operations
}

// A turn is a party's.
type turn struct {
	operations list.List[Operation]
	credit     int64 // of cost
	begun      bool  // it has been given the credit of the turn that it has now
	link       list.Link[turn]
}

// turnCost is how much a party may give the store in its turn: what an operation of 4 KiB
// costs. A larger one waits for several turns.
const turnCost = 8 << 10

// cost is an operation's share of a store's time, in bytes: those that it moves, and a
// constant amount for the operation.
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

// remove takes an operation out.
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

// next takes out the operation that is next, nil if there is none.
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
