package token

import (
	"context"
	"time"

	"github.com/nvmeof-go/nvmeof/internal/recent"
)

// readTime is how long a file system may take.
const readTime = 5 * time.Second

// A Keeper is the tokens of a file as it is now: what is revoked counts no more within a second.
// Any goroutine may use it.
type Keeper struct {
	Path string
	last recent.Reading[List]
}

// List is what the file has. One that cannot be read has no tokens.
func (k *Keeper) List() (List, error) {
	return k.last.Get(func() (List, error) {
		ctx, cancel := context.WithTimeout(context.Background(), readTime)
		defer cancel()
		return Read(ctx, k.Path)
	})
}

// Find finds the entry of a token by its hash.
func (k *Keeper) Find(h Hash) (e Entry, ok bool, err error) {
	l, err := k.List()
	if err != nil {
		return Entry{}, false, err
	}
	e, ok = l.Find(h)
	return e, ok, nil
}
