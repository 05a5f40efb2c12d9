//go:build !386 && !arm

package faultyfs

import (
	"bytes"
	"crypto/sha256"
	"errors"
	"fmt"
	"iter"
	"maps"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"

	"golang.org/x/sys/unix"
)

// A Log is a base state and the changes after it.
type Log struct {
	Base    map[uint64]*Node
	Changes []Change
}

// A fate is what happens to a change that is not durable.
type fate uint8

const (
	lost fate = iota
	kept
	torn // only the first half of a write's sectors
	ragged
)

// unsure returns those of the first n changes that a power failure may undo.
func (l *Log) unsure(n int) (out []int) {
	synced := map[uint64]bool{} // by a later entry of the log
	for i := n - 1; i >= 0; i-- {
		c := &l.Changes[i]
		switch {
		case c.Kind == Sync:
			synced[c.Node] = true
		case c.Kind == Rename && synced[c.Of], synced[c.Node]:
		default:
			out = append(out, i)
		}
	}
	slices.Reverse(out)
	return out
}

// image returns the state after the first n changes, with the given fates.
func (l *Log) image(n int, fates map[int]fate, rnd *rand.Rand) tree {
	t := tree(l.Base).clone()
	cut := map[uint64]bool{} // directories that lost an entry: their later changes are lost too
	for i := range l.Changes[:n] {
		c := l.Changes[i]
		f, is := fates[i]
		if !is {
			f = kept
		}
		if c.ofEntries() && is {
			cut[c.Node] = cut[c.Node] || f == lost
			if cut[c.Node] {
				f = lost
			}
		}
		if c.Kind == Make && f == lost && t[c.Of] == nil { // the file has its content but no name
			t[c.Of] = newNode(c.Dir, c.Mode)
		}
		switch {
		case f == lost:
		case f == kept || c.Kind != Write:
			t.apply(&c)
		case f == torn:
			c.Data = c.Data[:max(len(c.Data)/2/sector, 1)*sector]
			t.apply(&c)
		default:
			for off := 0; off < len(c.Data); off += sector {
				if rnd.IntN(2) == 0 {
					part := c
					part.Offset, part.Data = c.Offset+int64(off), c.Data[off:min(off+sector, len(c.Data))]
					t.apply(&part)
				}
			}
		}
	}
	return t
}

// crash returns a random state that a power failure may leave now.
func (l *Log) crash(rnd *rand.Rand) tree {
	fates := map[int]fate{}
	for _, i := range l.unsure(len(l.Changes)) {
		fates[i] = []fate{lost, kept, ragged}[rnd.IntN(3)]
	}
	return l.image(len(l.Changes), fates, rnd)
}

// mostImages is the maximum number of states that are tried for one point of the log.
const mostImages = 256

// An Image is a state that a power failure may leave.
type Image struct {
	After int    // number of changes before the failure
	Last  bool   // the failure is after all changes
	Lost  string // the changes that were lost or torn, as text
	tree  tree
}

// Images yields every different state that a power failure may leave at some point of the log. States at its end are
// yielded again with Last. For a point with very many states it yields a random selection.
func (l *Log) Images() iter.Seq[*Image] {
	return func(yield func(*Image) bool) {
		seen, rnd := map[string]bool{}, rand.New(rand.NewPCG(1, 2))
		for n := range len(l.Changes) + 1 {
			for fates := range l.fates(n, rnd) {
				m := &Image{n, n == len(l.Changes), l.words(fates), l.image(n, fates, rnd)}
				if key := fmt.Sprint(m.Last, m.tree.key()); !seen[key] {
					seen[key] = true
					if !yield(m) {
						return
					}
				}
			}
		}
	}
}

func (l *Log) words(fates map[int]fate) string {
	text := ""
	for _, i := range slices.Sorted(maps.Keys(fates)) {
		if f := fates[i]; f != kept {
			text += fmt.Sprintf(" %d:%v", i, []string{"lost", "", "torn"}[f])
		}
	}
	return text
}

// fates yields the possible fates of the unsure ones of the first n changes.
func (l *Log) fates(n int, rnd *rand.Rand) iter.Seq[map[int]fate] {
	unsure := l.unsure(n)
	choices := func(i int) []fate {
		if c := &l.Changes[i]; c.Kind == Write && len(c.Data) > sector {
			return []fate{kept, lost, torn}
		}
		return []fate{kept, lost}
	}
	total := 1
	for _, i := range unsure {
		total = min(total*len(choices(i)), mostImages+1)
	}
	return func(yield func(map[int]fate) bool) {
		for k := range min(total, mostImages) {
			fates, rest := map[int]fate{}, k
			for _, i := range unsure {
				c := choices(i)
				if total > mostImages {
					fates[i] = c[rnd.IntN(len(c))]
					continue
				}
				fates[i], rest = c[rest%len(c)], rest/len(c)
			}
			if !yield(fates) {
				return
			}
		}
	}
}

// key returns a hash of the state.
func (t tree) key() string {
	h := sha256.New()
	t.walk(rootID, "", func(path string, n *Node) error {
		fmt.Fprintf(h, "%q %v %o %d %q\n", path, n.Dir, n.Mode, len(n.Data), n.Attrs)
		_, err := h.Write(n.Data)
		return err
	})
	return string(h.Sum(nil))
}

func (t tree) walk(id uint64, path string, f func(string, *Node) error) error {
	n := t[id]
	if err := f(path, n); err != nil {
		return err
	}
	for _, name := range slices.Sorted(maps.Keys(n.Entries)) {
		if err := t.walk(n.Entries[name], path+"/"+name, f); err != nil {
			return err
		}
	}
	return nil
}

// Restore writes the state into an empty directory.
func (m *Image) Restore(dir string) error {
	return m.tree.walk(rootID, "", func(path string, n *Node) error {
		name := filepath.Join(dir, path)
		if n.Dir {
			if path == "" {
				return nil
			}
			return os.Mkdir(name, os.FileMode(n.Mode&0o777))
		}
		f, err := os.OpenFile(name, os.O_WRONLY|os.O_CREATE|os.O_EXCL, os.FileMode(n.Mode&0o777))
		if err != nil {
			return err
		}
		err = errors.Join(writeSparse(f, n.Data), f.Close())
		for attr, value := range n.Attrs {
			if e := unix.Setxattr(name, attr, value, 0); e != nil && e != unix.ENOTSUP {
				err = errors.Join(err, e)
			}
		}
		return err
	})
}

// writeSparse writes the pages that are not zero.
func writeSparse(f *os.File, b []byte) error {
	var zeroes [page]byte
	for off := 0; off < len(b); off += page {
		part := b[off:min(off+page, len(b))]
		if bytes.Equal(part, zeroes[:len(part)]) {
			continue
		}
		if _, err := f.WriteAt(part, int64(off)); err != nil {
			return err
		}
	}
	return f.Truncate(int64(len(b)))
}
