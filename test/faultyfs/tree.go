//go:build !386 && !arm

package faultyfs

import (
	"maps"
	"slices"
	"syscall"
)

// sector is the unit in which a drive writes atomically, in bytes.
const sector = 512

// page is the allocation unit of the file system, in bytes.
const page = 4096

// rootID is the node of the root directory.
const rootID = 1

// A Node is a file or a directory of a state.
type Node struct {
	Dir     bool
	Mode    uint32
	Data    []byte
	Pages   map[int64]bool // pages with allocated storage
	Attrs   map[string][]byte
	Entries map[string]uint64
}

func newNode(dir bool, mode uint32) *Node {
	return &Node{Dir: dir, Mode: mode & 0o7777, Pages: map[int64]bool{}, Attrs: map[string][]byte{}, Entries: map[string]uint64{}}
}

func (n *Node) clone() *Node {
	c := *n
	c.Data, c.Pages, c.Attrs, c.Entries = slices.Clone(n.Data), maps.Clone(n.Pages), maps.Clone(n.Attrs), maps.Clone(n.Entries)
	return &c
}

func (n *Node) truncate(size int64) {
	if size <= int64(len(n.Data)) {
		n.Data = n.Data[:size]
		maps.DeleteFunc(n.Pages, func(p int64, _ bool) bool { return p*page >= size })
		return
	}
	n.Data = append(n.Data, make([]byte, size-int64(len(n.Data)))...)
}

func (n *Node) write(offset int64, b []byte) {
	if end := offset + int64(len(b)); end > int64(len(n.Data)) {
		n.truncate(end)
	}
	copy(n.Data[offset:], b)
	n.allocate(offset, int64(len(b)))
}

func (n *Node) allocate(offset, length int64) {
	for p := offset / page; p*page < offset+length; p++ {
		n.Pages[p] = true
	}
}

// free makes a hole of the whole pages within a range.
func (n *Node) free(offset, length int64) {
	for p := (offset + page - 1) / page; (p+1)*page <= offset+length; p++ {
		delete(n.Pages, p)
	}
}

// A tree is a state of the file system, by node.
type tree map[uint64]*Node

func newTree() tree { return tree{rootID: newNode(true, 0o755)} }

func (t tree) clone() tree {
	c := tree{}
	for id, n := range t {
		c[id] = n.clone()
	}
	return c
}

// Kind is the kind of a change.
type Kind uint8

const (
	Make Kind = iota
	Write
	Truncate
	Allocate
	Zero
	Chmod
	SetAttr
	Rename
	Remove
	Sync // of a file or a directory
)

// A Change is an entry of the log. Node is the directory if entries change.
type Change struct {
	Kind     Kind
	Node     uint64
	Name, To string // of entries or an attribute
	Of       uint64 // Make: the new node; Rename: the new directory
	Dir      bool
	Mode     uint32
	Offset   int64
	Length   int64
	Data     []byte
}

// ofEntries reports whether a change is of a directory's entries.
func (c *Change) ofEntries() bool { return c.Kind == Make || c.Kind == Rename || c.Kind == Remove }

// apply makes a change. In a state that has lost earlier changes some changes cannot be made and are ignored.
func (t tree) apply(c *Change) {
	n := t[c.Node]
	if n == nil {
		return
	}
	switch c.Kind {
	case Make:
		if t[c.Of] == nil {
			t[c.Of] = newNode(c.Dir, c.Mode)
		}
		n.Entries[c.Name] = c.Of
	case Write:
		n.write(c.Offset, c.Data)
	case Truncate:
		n.truncate(c.Length)
	case Allocate:
		n.allocate(c.Offset, c.Length)
		if c.Dir && c.Offset+c.Length > int64(len(n.Data)) { // the allocation extends the file
			n.truncate(c.Offset + c.Length)
		}
	case Zero:
		if end := min(c.Offset+c.Length, int64(len(n.Data))); end > c.Offset {
			clear(n.Data[c.Offset:end])
		}
		if c.Dir { // a hole
			n.free(c.Offset, c.Length)
		}
	case Chmod:
		n.Mode = c.Mode
	case SetAttr:
		n.Attrs[c.Name] = c.Data
	case Rename:
		if id, there := n.Entries[c.Name]; there && t[c.Of] != nil {
			delete(n.Entries, c.Name)
			t[c.Of].Entries[c.To] = id
		}
	case Remove:
		delete(n.Entries, c.Name)
	}
}

// used returns the allocated storage in bytes.
func (t tree) used() (n int64) {
	for _, f := range t {
		n += int64(len(f.Pages)) * page
	}
	return n
}

func (t tree) find(dir uint64, name string) (uint64, *Node, syscall.Errno) {
	d := t[dir]
	if d == nil {
		return 0, nil, syscall.ENOENT
	}
	if !d.Dir {
		return 0, nil, syscall.ENOTDIR
	}
	id, there := d.Entries[name]
	if !there {
		return 0, nil, syscall.ENOENT
	}
	return id, t[id], 0
}
