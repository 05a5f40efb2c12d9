// Package revision keeps the configuration of a group in its store: one text after another,
// each with a number, of which readers find the whole of one or the whole of another.
//
// The text is compressed, in pieces of which most are the same in the next one, and put under keys that follow from
// its content, in parts. Only then one key is changed, by compare, that says which text is the present one. A writer that dies
// before leaves parts that nobody finds, and that a later writer removes.
package revision

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync/atomic"

	"github.com/nvmeof-go/nvmeof/internal/group/state"
)

// Prefix is that of all keys, and of those that change with each revision.
const (
	Prefix = "config/"

	currentKey = Prefix + "current"
	dataPrefix = Prefix + "data/"
)

const (
	version  = 1
	partSize = 512 << 10
	maxParts = 64 // of compressed text
)

// MaxText is how many bytes a text may have: no more than gateways read. A few bytes of what is compressed may say
// that there are many.
const MaxText = 16 << 20

// ErrConflict is that the present revision is another than the writer knows.
var ErrConflict = errors.New("the group's configuration was changed by another gateway")

// ErrLost is wrapped by the error that the group has had a configuration, which the store has no more.
var ErrLost = errors.New("the store has lost it")

// A pointer is the value of currentKey.
type pointer struct {
	Version  int    `json:"version"`
	Revision int64  `json:"revision"`
	Hash     string `json:"hash"` // SHA-256 of the compressed text: two compressors may make two of one text
	Parts    int    `json:"parts"`
	Before   string `json:"before,omitempty"` // hash of the revision before, which readers may be reading
}

// present reads the pointer; one of revision 0 is that nothing was written yet.
func present(ctx context.Context, s state.Store) (p pointer, at state.Revision, err error) {
	if p, at, err = read(ctx, s); err == nil && at == 0 {
		err = lost(ctx, s, 0)
	}
	return p, at, err
}

// read reads the pointer; at revision 0 of the store there is none.
func read(ctx context.Context, s state.Store) (p pointer, at state.Revision, err error) {
	snapshot, err := s.Get(ctx, currentKey)
	if err != nil || len(snapshot.Entries) == 0 {
		return p, 0, err
	}
	e := snapshot.Entries[0]
	if err := json.Unmarshal(e.Value, &p); err != nil {
		return p, 0, fmt.Errorf("%s: %w", currentKey, err)
	}
	switch {
	case p.Version > version:
		return p, 0, fmt.Errorf("the configuration was written by a later version: upgrade this gateway")
	case p.Version < 1, p.Revision < 1: // or the group would have no configuration, and serve nothing
		return pointer{}, 0, fmt.Errorf("%s is damaged: it has no revision: restore it from a copy of the store", currentKey)
	}
	return p, e.Revision, nil
}

// Number is that of the present revision; 0: there is none.
func Number(ctx context.Context, s state.Store) (int64, error) {
	p, _, err := present(ctx, s)
	return p.Revision, err
}

// Present is the comparison that holds as long as a revision is the present one; [ErrConflict]: it is not.
func Present(ctx context.Context, s state.Store, number int64) (state.Compare, error) {
	p, at, err := present(ctx, s)
	if err == nil && p.Revision != number {
		err = ErrConflict
	}
	return state.Compare{Key: currentKey, Revision: at}, err
}

// A Cache reads and writes the configuration. It remembers the text that it has read or written last, and
// compresses and decompresses of another what that has not. The zero value is ready for use, by any goroutine.
type Cache struct {
	last   atomic.Pointer[packed]
	failed atomic.Pointer[failure]
}

// A failure is why a text is none. It is one for as long as its hash is the present one: readers come again and
// again.
type failure struct {
	hash string
	err  error
}

// Read is the present revision with its text, which must not be changed; 0: there is none.
func (c *Cache) Read(ctx context.Context, s state.Store) (number int64, text []byte, err error) {
	for {
		p, _, err := present(ctx, s)
		if err != nil || p.Revision == 0 {
			return 0, nil, err
		}
		now, err := c.read(ctx, s, &p)
		if err == nil {
			c.last.Store(now)
			return p.Revision, now.text, nil
		}
		if !errors.Is(err, errPart) {
			return 0, nil, err
		}
		again, _, err := present(ctx, s)
		if err != nil {
			return 0, nil, err
		}
		if again.Revision == p.Revision {
			return 0, nil, fmt.Errorf("revision %d of the configuration is not whole: write it anew from a copy", p.Revision)
		}
	}
}

// errPart is that a part is missing: a later revision may be there.
var errPart = errors.New("a part of the configuration is missing")

// known is the text of before; without one it is empty.
func (c *Cache) known() *packed {
	if last := c.last.Load(); last != nil {
		return last
	}
	return new(packed)
}

func (c *Cache) read(ctx context.Context, s state.Store, p *pointer) (*packed, error) {
	before := c.known()
	if p.Hash == before.hash {
		return before, nil
	}
	if f := c.failed.Load(); f != nil && f.hash == p.Hash {
		return nil, fmt.Errorf("revision %d of the configuration: %w", p.Revision, f.err)
	}
	if p.Parts > maxParts {
		return nil, fmt.Errorf("revision %d of the configuration has %d parts, of at most %d", p.Revision, p.Parts, maxParts)
	}
	snapshot, err := s.Get(ctx, dataPrefix+p.Hash+"/")
	if err != nil {
		return nil, err
	}
	if len(snapshot.Entries) != p.Parts {
		return nil, errPart
	}
	var all []byte
	for _, e := range snapshot.Entries {
		all = append(all, e.Value...)
	}
	if hashOf(all) != p.Hash {
		return nil, fmt.Errorf("revision %d of the configuration is damaged", p.Revision)
	}
	now, err := unpack(all, before)
	if err != nil {
		c.failed.Store(&failure{p.Hash, err})
		return nil, fmt.Errorf("revision %d of the configuration: %w", p.Revision, err)
	}
	now.hash = p.Hash
	return now, nil
}

func hashOf(packed []byte) string {
	sum := sha256.Sum256(packed)
	return hex.EncodeToString(sum[:])
}

// Write makes a text the revision after base, and returns its number. It is [ErrConflict] if
// base is not the present one. With [state.ErrUnknown] it may be that of the group now, or later. The text must
// not be changed afterwards. Where the store has lost the pointer, whoever has the latest revision that was followed writes
// the one after it.
func (c *Cache) Write(ctx context.Context, s state.Store, base int64, text []byte) (int64, error) {
	p, at, err := read(ctx, s)
	if err == nil && at == 0 {
		err = lost(ctx, s, base)
	}
	switch {
	case err != nil:
		return 0, err
	case at != 0 && p.Revision < base:
		return 0, fmt.Errorf("%w: it has revision %d, and this gateway %d: was it restored from a copy? Start the gateways again", ErrLost, p.Revision, base)
	case at != 0 && p.Revision != base:
		return 0, ErrConflict
	}
	now, err := pack(text, c.known())
	if err != nil {
		return 0, err
	}
	next := pointer{Version: version, Revision: base + 1, Hash: now.hash, Before: p.Hash}
	txn, err := putParts(ctx, s, &next, now.packed)
	if err != nil {
		return 0, err
	}
	c.last.Store(now)
	value, err := json.Marshal(next)
	if err != nil {
		return 0, err
	}
	txn.If = append(txn.If, state.Compare{Key: currentKey, Revision: at})
	txn.Then = []state.Op{{Key: currentKey, Value: value}}
	result, err := s.Txn(ctx, txn)
	switch {
	case errors.Is(err, state.ErrUnknown):
		if now, _, readErr := present(ctx, s); readErr == nil && now == next {
			return next.Revision, nil // so it was carried out
		}
		return 0, err
	case err != nil:
		return 0, err
	case !result.Done:
		return 0, ErrConflict
	}
	_ = collect(ctx, s, &next, result.Revision) // the next writer tries again
	return next.Revision, nil
}

// putParts puts the parts of a text, and returns the comparisons that hold while they are there:
// another writer may be removing what nobody refers to. Parts that are there already, as those of the
// present revision when its text is written once more, are put as they are.
func putParts(ctx context.Context, s state.Store, p *pointer, packed []byte) (txn state.Txn, err error) {
	for part := range slices.Chunk(packed, partSize) {
		key := fmt.Sprintf("%s%s/%03d", dataPrefix, p.Hash, p.Parts)
		p.Parts++
		result, err := s.Txn(ctx, state.Txn{Then: []state.Op{{Key: key, Value: bytes.Clone(part)}}})
		if err != nil {
			return txn, notYet(err)
		}
		txn.If = append(txn.If, state.Compare{Key: key, Revision: result.Revision})
	}
	return txn, nil
}

// notYet is an error before anything was changed that readers find.
func notYet(err error) error {
	if errors.Is(err, state.ErrUnknown) {
		return fmt.Errorf("%w: nothing was changed", state.ErrUnavailable)
	}
	return err
}

// collect removes the texts that are neither the present one nor the one before, while the pointer is
// that of a revision of the store: a writer that was held up since knows of none that came later.
func collect(ctx context.Context, s state.Store, p *pointer, at state.Revision) error {
	snapshot, err := s.Get(ctx, dataPrefix)
	if err != nil {
		return err
	}
	t := state.Txn{If: []state.Compare{{Key: currentKey, Revision: at}}}
	for _, e := range snapshot.Entries {
		hash, _, _ := strings.Cut(strings.TrimPrefix(e.Key, dataPrefix), "/")
		if hash == p.Hash || hash == p.Before {
			continue
		}
		if len(t.If)+len(t.Then)+2 > state.MaxOps {
			break // the next writer removes the others
		}
		t.If = append(t.If, state.Compare{Key: e.Key, Revision: e.Revision})
		t.Then = append(t.Then, state.Op{Key: e.Key, Delete: true})
	}
	if len(t.Then) == 0 {
		return nil
	}
	_, err = s.Txn(ctx, t)
	return err
}
