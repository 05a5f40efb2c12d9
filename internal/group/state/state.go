// Package state is the contract of what keeps the state of a group of gateways: small
// values under keys, changed by transactions that compare first. Package statetest holds the
// suite that every implementation passes.
//
// # Order
//
// A store has one history. Each transaction that is carried out is one step of it, with a
// [Revision] that is greater than all before. Get and Txn are linearizable: what they
// return is the state at one moment between call and return.
//
// # Failures
//
// An error that is [ErrUnknown] says that the transaction may have been carried out, or may
// still be: who made it has to read before it goes on. With any other error it has not been
// carried out, and will not be. There are no leases: that a member has not been heard of is
// judged by its peers, from keys that it writes.
package state

import (
	"context"
	"errors"
)

// A Revision is a step in the history of a store, from 1 on. As that of a key, 0 is a key that
// does not exist.
type Revision uint64

// Limits of every store. A transaction that exceeds them is refused.
const (
	MaxKey   = 512     // bytes of a key
	MaxValue = 1 << 20 // bytes of a value
	MaxOps   = 100     // comparisons and operations of a transaction, together
	MaxTxn   = 5 << 18 // bytes of all keys and values of a transaction, together
)

var (
	// ErrUnknown is the error of a transaction whose outcome is not known.
	ErrUnknown = errors.New("state: it is not known whether the transaction was carried out")
	// ErrUnavailable is wrapped by errors of stores that cannot be reached, or do not answer.
	ErrUnavailable = errors.New("state: the store does not answer")
	// ErrTooLarge is wrapped by the refusal of what exceeds the limits.
	ErrTooLarge = errors.New("state: too large")
)

// An Entry is a key with its value, and the revision of its last change.
type Entry struct {
	Key      string
	Value    []byte
	Revision Revision
}

// A Compare holds if the last change of the key had that revision; 0: if there is no such key.
// A key that was deleted and put again has a greater revision than before.
type Compare struct {
	Key      string
	Revision Revision
}

// An Op puts a value under a key, or deletes the key. Deleting what does not exist is no
// error.
type Op struct {
	Key    string
	Value  []byte
	Delete bool
}

// A Txn carries out all of its operations, which have different keys, if all comparisons hold.
type Txn struct {
	If   []Compare
	Then []Op
}

// A Result is the outcome of a transaction.
type Result struct {
	Done bool // the comparisons held
	// Revision is that of the step, and so of the keys that it put. Where nothing was changed
	// it is one at which the comparisons held, or did not.
	Revision Revision
}

// A Snapshot is what a store has under a prefix at one revision, sorted by key.
type Snapshot struct {
	Revision Revision
	Entries  []Entry
}

// A Store is one group's state. Its methods may be called from any goroutine, and return soon
// after their context ends. Get and Txn also have a time limit of their own, after which their
// error is [ErrUnavailable] and [ErrUnknown].
type Store interface {
	// Get returns all entries whose keys have the prefix. They are the caller's.
	Get(ctx context.Context, prefix string) (Snapshot, error)

	// Txn carries out a transaction, or finds that a comparison does not hold. It refuses
	// what [Txn.Check] does.
	Txn(ctx context.Context, t Txn) (Result, error)

	// Watch calls changed, one call at a time, when entries under the prefix may have changed:
	// within a second of each change while the store answers, and once at the beginning.
	// Several changes may be one call, and a call may have no change. It returns when the
	// context ends, with its error; losses of the store are waited for.
	Watch(ctx context.Context, prefix string, changed func()) error

	// Close ends calls under way, Watch too, with [ErrUnknown] or [ErrUnavailable]. Calls after
	// it fail with [ErrUnavailable].
	Close() error
}
