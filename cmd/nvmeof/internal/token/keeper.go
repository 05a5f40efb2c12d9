package token

import (
	"context"
	"time"

	"github.com/nvmeof-go/nvmeof/internal/recent"
)

// readTime limits how long reading the file may take.
const readTime = 5 * time.Second

// A Keeper returns the current tokens of a file: a revoked token is rejected within a second. It may be used from any
// goroutine.
type Keeper struct {
	Path string
	last recent.Reading[List]
}

// List returns the tokens in the file; none if it cannot be read.
func (k *Keeper) List() (List, error) {
	return k.last.Get(func() (List, error) {
		ctx, cancel := context.WithTimeout(context.Background(), readTime)
		defer cancel()
		return Read(ctx, k.Path)
	})
}

// Find returns the entry of the token with that hash.
func (k *Keeper) Find(h Hash) (e Entry, ok bool, err error) {
	l, err := k.List()
	if err != nil {
		return Entry{}, false, err
	}
	e, ok = l.Find(h)
	return e, ok, nil
}
