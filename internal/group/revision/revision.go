// Package revision keeps the configuration of a group in its store: a sequence of numbered texts. Readers always find a
// complete text.
//
// A text is compressed in pieces, most of which are the same in the next text. It is stored in parts under keys that
// depend on its content. Only then is the one key changed, by compare-and-set, that says which text is the present one.
// A writer that dies before that leaves unreferenced parts, which a later writer removes.
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

// Prefix is the prefix of all keys; the others are those of the keys that change with each revision.
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

// MaxText is the maximum size of a text in bytes, since gateways read no more. A few compressed bytes may stand for
// very many.
const MaxText = 16 << 20

// ErrConflict says that the present revision is not the one that the writer knows.
var ErrConflict = errors.New("the group's configuration was changed by another gateway")

// ErrLost is wrapped by the error for a group whose configuration is missing from the store although it once had one.
var ErrLost = errors.New("the group's store has lost the configuration")

// A pointer is the value of currentKey.
type pointer struct {
	Version  int    `json:"version"`
	Revision int64  `json:"revision"`
	Hash     string `json:"hash"` // SHA-256 of the compressed text, which compressors may produce differently
	Parts    int    `json:"parts"`
	Before   string `json:"before,omitempty"` // hash of the previous revision, which readers may be reading
}

// present reads the pointer. Its revision is 0 if no configuration was ever written.
func present(ctx context.Context, s state.Store) (p pointer, at state.Revision, err error) {
	if p, at, err = read(ctx, s); err == nil && at == 0 {
		err = lost(ctx, s, 0)
	}
	return p, at, err
}

// read reads the pointer. at is 0 if there is none.
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
	case p.Version < 1, p.Revision < 1: // otherwise the group would have no configuration and serve nothing
		return pointer{}, 0, fmt.Errorf("%s is damaged, it has no revision: restore this key of the group's store from a backup", currentKey)
	}
	return p, e.Revision, nil
}

// Number returns the number of the present revision, or 0 if there is none.
func Number(ctx context.Context, s state.Store) (int64, error) {
	p, _, err := present(ctx, s)
	return p.Revision, err
}

// Present returns a comparison that holds while number is the present revision, or [ErrConflict] if it is not.
func Present(ctx context.Context, s state.Store, number int64) (state.Compare, error) {
	p, at, err := present(ctx, s)
	if err == nil && p.Revision != number {
		err = ErrConflict
	}
	return state.Compare{Key: currentKey, Revision: at}, err
}

// A Cache reads and writes the configuration. It remembers the last text that it has read or written, and compresses or
// decompresses only what is new in another one. The zero value is ready for use. Any goroutine may use it.
type Cache struct {
	last   atomic.Pointer[packed]
	failed atomic.Pointer[failure]
}

// A failure says why a text is invalid. It is remembered as long as its hash is the present one, since readers try
// repeatedly.
type failure struct {
	hash string
	err  error
}

// Read returns the present revision and its text, which must not be modified. The number is 0 if there is none.
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
			return 0, nil, fmt.Errorf("revision %d of the configuration is incomplete: apply the configuration again (nvmeof target apply)", p.Revision)
		}
	}
}

// errPart says that a part is missing. There may be a later revision.
var errPart = errors.New("a part of the configuration is missing")

// known returns the remembered text, or an empty one.
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
		return nil, fmt.Errorf("revision %d of the configuration has %d parts, at most %d are allowed", p.Revision, p.Parts, maxParts)
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

// Write writes a text as the revision after base, and returns its number. The error is [ErrConflict] if base is not the
// present revision. After [state.ErrUnknown] the text may be the group's revision now, or later. The text must not be
// modified afterwards. If the store has lost the pointer, a gateway with the latest followed revision as base can write
// the next one.
func (c *Cache) Write(ctx context.Context, s state.Store, base int64, text []byte) (int64, error) {
	p, at, err := read(ctx, s)
	if err == nil && at == 0 {
		err = lost(ctx, s, base)
	}
	switch {
	case err != nil:
		return 0, err
	case at != 0 && p.Revision < base:
		return 0, fmt.Errorf("%w: the store has revision %d, but this gateway has %d: was the store restored from a backup? Restart the gateways", ErrLost, p.Revision, base)
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
			return next.Revision, nil // the transaction was executed
		}
		return 0, err
	case err != nil:
		return 0, err
	case !result.Done:
		return 0, ErrConflict
	}
	_ = collect(ctx, s, &next, result.Revision) // after an error the next writer tries again
	return next.Revision, nil
}

// putParts writes the parts of a text, and returns comparisons that hold while they exist: another writer may be
// removing unreferenced parts. Parts that already exist, for example because the present text is written again, are
// written again.
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

// notYet returns the error of a call before anything was changed that readers can see.
func notYet(err error) error {
	if errors.Is(err, state.ErrUnknown) {
		return fmt.Errorf("%w: nothing was changed", state.ErrUnavailable)
	}
	return err
}

// collect removes the texts other than the present and the previous one. It does so only while the pointer has the
// store's revision at, since a delayed writer does not know of later texts.
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
