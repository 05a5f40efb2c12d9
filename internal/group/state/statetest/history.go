package statetest

import (
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"sync"
	"time"

	"github.com/anishathalye/porcupine"

	"github.com/nvmeof-go/nvmeof/internal/group/state"
)

// journal is the prefix of keys that record transactions: each transaction of a history puts one of them, so that in
// the end the store shows which were executed, and in which order.
const journal = "journal/"

// A History is what clients have requested from one store, and the replies.
type History struct {
	mu    sync.Mutex
	clock int64 // of calls and returns
	ops   []porcupine.Operation
}

// An input is a request.
type input struct {
	get    bool
	prefix string
	txn    state.Txn
	key    string // in the journal
}

// An output is a reply.
type output struct {
	snap    state.Snapshot
	result  state.Result
	unknown bool  // whether it was executed
	err     error // of a request that was not executed
}

// Client returns s, recording its calls in the history. A client makes one call at a time, and has its own number.
func (h *History) Client(id int, s state.Store) state.Store {
	return &recorder{Store: s, h: h, id: id}
}

type recorder struct {
	state.Store
	h    *History
	id   int
	made int
}

func (h *History) now() int64 {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.clock++
	return h.clock
}

func (h *History) add(op porcupine.Operation) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.ops = append(h.ops, op)
}

// Get records what was read.
func (r *recorder) Get(ctx context.Context, prefix string) (state.Snapshot, error) {
	call := r.h.now()
	snap, err := r.Store.Get(ctx, prefix)
	if err == nil {
		r.h.add(porcupine.Operation{ClientId: r.id, Input: input{get: true, prefix: prefix}, Call: call,
			Output: output{snap: snap}, Return: r.h.now()})
	}
	return snap, err
}

// Txn records what was done, or may have been.
func (r *recorder) Txn(ctx context.Context, t state.Txn) (state.Result, error) {
	r.made++
	in := input{txn: t, key: fmt.Sprintf("%s%d/%d", journal, r.id, r.made)}
	t.Then = append(slices.Clone(t.Then), put(in.key, ""))
	call := r.h.now()
	result, err := r.Store.Txn(ctx, t)
	op := porcupine.Operation{ClientId: r.id, Input: in, Call: call, Output: output{result: result, err: err}, Return: r.h.now()}
	if errors.Is(err, state.ErrUnknown) {
		op.Output, op.Return = output{unknown: true}, math.MaxInt64
	}
	r.h.add(op)
	return result, err
}

// Counts returns the number of answered calls, and of transactions with an unknown outcome.
func (h *History) Counts() (answered, unknown int) {
	h.mu.Lock()
	defer h.mu.Unlock()
	for _, op := range h.ops {
		if op.Output.(output).unknown {
			unknown++
		} else {
			answered++
		}
	}
	return answered, unknown
}

// Check reports whether the history is linearizable, with revisions as package state defines them, and whether errors
// were correct. It reads the journal from s, and takes at most limit.
func (h *History) Check(ctx context.Context, s state.Store, limit time.Duration) error {
	written, err := s.Get(ctx, journal)
	if err != nil {
		return err
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	ops, err := h.known(written)
	if err != nil {
		return err
	}
	switch result := porcupine.CheckOperationsTimeout(model(), ops, limit); result {
	case porcupine.Ok:
		return nil
	case porcupine.Unknown:
		return fmt.Errorf("statetest: a history of %d calls was not judged in %v", len(ops), limit)
	default:
		return fmt.Errorf("statetest: a history of %d calls is not linearizable", len(ops))
	}
}

// known returns the transactions that were executed, and those that were not because comparisons did not hold. A
// transaction with an unknown outcome that is not in the journal has not happened yet, or changed nothing.
func (h *History) known(written state.Snapshot) (ops []porcupine.Operation, err error) {
	at := map[string]state.Revision{}
	for _, e := range written.Entries {
		at[e.Key] = e.Revision
	}
	for _, op := range h.ops {
		in, out := op.Input.(input), op.Output.(output)
		r := at[in.key]
		switch {
		case in.get:
		case out.err != nil && r != 0:
			return nil, fmt.Errorf("statetest: %v was carried out at revision %d, and its error was: %w", in.txn, r, out.err)
		case out.err != nil, out.unknown && r == 0:
			continue
		case out.unknown:
			op.Output = output{result: state.Result{Done: true, Revision: r}}
		case out.result.Done && r != out.result.Revision, !out.result.Done && r != 0:
			return nil, fmt.Errorf("statetest: %v is in the journal at revision %d, and its result was %v", in.txn, r, out.result)
		}
		ops = append(ops, op)
	}
	return ops, nil
}
