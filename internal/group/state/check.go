package state

import (
	"errors"
	"fmt"
)

var errEmptyKey = errors.New("group store: a key is empty")

// Check returns the error of a transaction that no store executes: one that exceeds the limits, has an empty key, or
// has the same key in two operations.
func (t Txn) Check() error {
	if n := len(t.If) + len(t.Then); n > MaxOps {
		return fmt.Errorf("%w: a transaction of %d comparisons and operations, at most %d", ErrTooLarge, n, MaxOps)
	}
	total := 0
	for _, c := range t.If {
		if err := checkKey(c.Key); err != nil {
			return err
		}
		total += len(c.Key)
	}
	seen := make(map[string]bool, len(t.Then))
	for _, o := range t.Then {
		if err := o.check(); err != nil {
			return err
		}
		if seen[o.Key] {
			return fmt.Errorf("group store: a transaction has two operations on the key %q", o.Key)
		}
		seen[o.Key] = true
		total += len(o.Key) + len(o.Value)
	}
	if total > MaxTxn {
		return fmt.Errorf("%w: a transaction of %d bytes, at most %d", ErrTooLarge, total, MaxTxn)
	}
	return nil
}

func (o Op) check() error {
	if n := len(o.Value); n > MaxValue {
		return fmt.Errorf("%w: a value of %d bytes under the key %q, at most %d", ErrTooLarge, n, o.Key, MaxValue)
	}
	return checkKey(o.Key)
}

func checkKey(key string) error {
	if key == "" {
		return errEmptyKey
	}
	if n := len(key); n > MaxKey {
		return fmt.Errorf("%w: the key %.40q... of %d bytes, at most %d", ErrTooLarge, key, n, MaxKey)
	}
	return nil
}
