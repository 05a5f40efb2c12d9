// Package state defines the contract of a store for the state of a group of gateways: small values under keys, changed
// by transactions with comparisons. Package statetest has the test suite for implementations.
//
// # Order
//
// A store has one history. Each executed transaction is one step of it, with a [Revision] that is greater than all
// earlier ones. Get and Txn are linearizable: what they return is the state at one point in time between call and
// return.
//
// # Failures
//
// After [ErrUnknown] the transaction may have been executed, or may still be: the caller must read before it continues.
// After any other error it was not executed and will not be. There are no leases: members judge each other's silence
// from keys that they write.
package state

import (
	"context"
	"errors"
)

// A Revision is a step in the history of a store, from 1. As the revision of a key, 0 means that the key does not
// exist.
type Revision uint64

// Limits of every store. A transaction that exceeds them is rejected.
const (
	MaxKey   = 512     // bytes of a key
	MaxValue = 1 << 20 // bytes of a value
	MaxOps   = 100     // comparisons and operations of a transaction, in total
	MaxTxn   = 5 << 18 // bytes of all keys and values of a transaction, in total
)

var (
	// ErrUnknown is the error of a transaction whose outcome is unknown.
	ErrUnknown = errors.New("the group's store did not answer: the transaction may have been executed or not")
	// ErrUnavailable is wrapped by the errors of stores that cannot be reached or do not answer.
	ErrUnavailable = errors.New("the group's store does not answer")
	// ErrRefused is wrapped by the errors of stores that answer, but do not admit the caller or do not allow the call.
	ErrRefused = errors.New("the group's store refuses this client")
	// ErrTooLarge is wrapped by the error for exceeding the limits.
	ErrTooLarge = errors.New("too large for the group's store")
)

// An Entry is a key, its value, and the revision of its last change.
type Entry struct {
	Key      string
	Value    []byte
	Revision Revision
}

// A Compare holds if the last change of the key has that revision; 0: if there is no such key. A key that was deleted
// and put again has a greater revision than before.
type Compare struct {
	Key      string
	Revision Revision
}

// An Op puts a value under a key, or deletes the key. Deleting a missing key is not an error.
type Op struct {
	Key    string
	Value  []byte
	Delete bool
}

// A Txn executes all of its operations, which must have different keys, if all comparisons hold.
type Txn struct {
	If   []Compare
	Then []Op

	// Urgent transactions do not wait for others of the same Store that have not begun. A gateway whose heartbeats wait
	// behind what its hosts ask for would be fenced.
	Urgent bool
}

// A Result is the outcome of a transaction.
type Result struct {
	Done bool // the comparisons held
	// Revision is the revision of the step, and so of the keys that it put. If nothing was changed it is a revision at
	// which the comparisons held, or did not.
	Revision Revision
}

// A Snapshot is the content of a store under a prefix at one revision, sorted by key.
type Snapshot struct {
	Revision Revision
	Entries  []Entry
}

// A Store holds the state of one group. Any goroutine may call its methods, which return soon after their context ends.
// Get and Txn also have their own time limit, after which they return [ErrUnavailable] and [ErrUnknown], respectively.
type Store interface {
	// Get returns all entries whose keys have the prefix. The caller owns them.
	Get(ctx context.Context, prefix string) (Snapshot, error)

	// Txn executes a transaction, or finds that a comparison does not hold. It rejects what [Txn.Check] rejects.
	Txn(ctx context.Context, t Txn) (Result, error)

	// Watch calls changed when entries under the prefix may have changed: within a second of each change while the
	// store answers, and once at the beginning. Calls do not overlap. One call may cover several changes, or none.
	// Watch returns the context's error when it ends; while the store cannot be reached it waits.
	Watch(ctx context.Context, prefix string, changed func()) error

	// Close ends calls in progress, including Watch, with [ErrUnknown] or [ErrUnavailable]. Later calls fail with
	// [ErrUnavailable].
	Close() error
}
