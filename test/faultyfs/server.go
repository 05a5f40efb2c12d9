//go:build !386 && !arm

package faultyfs

import (
	"bytes"
	"maps"
	"math/rand/v2"
	"slices"
	"sync"
	"syscall"

	"github.com/hanwen/go-fuse/v2/fuse"
	"golang.org/x/sys/unix"
)

// Op is a kind of request that a fault applies to.
type Op uint16

const (
	OpOpen Op = 1 << iota // including create
	OpRead
	OpWrite
	OpSync // of a file
	OpSyncDir
	OpRename
	OpAllocate
	OpLook    // of names and attributes
	OpEntries // creation and removal of directory entries

	OpAll = OpEntries<<1 - 1
)

// A Fault is what happens to some requests.
type Fault struct {
	Ops   Op
	Name  string        // of the file, without its directory; empty: all
	Err   syscall.Errno // the result; 0: the usual one, after Release if it hangs
	Hang  bool
	Skip  int  // number of requests that succeed first
	Count int  // number of requests that then fail; 0: all
	Lie   bool // reads return wrong data without an error
	Short bool // writes only write the first half
}

// A server is the file system, independent of where it is mounted.
type server struct {
	fuse.RawFileSystem

	mu     sync.Mutex
	live   tree
	log    Log
	names  map[uint64]string // the last name of each node
	next   uint64
	space  int64 // bytes; 0: no limit
	faults []*Fault
	seen   map[*Fault]int
	thaw   chan struct{} // closed by release
	hangs  int
}

func newServer() *server {
	t := newTree()
	return &server{RawFileSystem: fuse.NewDefaultRawFileSystem(), live: t, log: Log{Base: t.clone()}, names: map[uint64]string{}, next: rootID,
		seen: map[*Fault]int{}, thaw: make(chan struct{})}
}

func (s *server) String() string { return "faulty" }

// enter applies the faults to a request, and returns with the server locked unless the request fails.
func (s *server) enter(op Op, name string) (*Fault, fuse.Status) {
	s.mu.Lock()
	f := s.find(op, name)
	switch {
	case f == nil || f.Lie || f.Short:
		return f, fuse.OK
	case f.Hang:
		thaw := s.thaw
		s.hangs++
		s.mu.Unlock()
		<-thaw
		s.mu.Lock()
		s.hangs--
	}
	if f.Err != 0 {
		s.mu.Unlock()
		return f, fuse.Status(f.Err)
	}
	return f, fuse.OK
}

func (s *server) find(op Op, name string) *Fault {
	for _, f := range s.faults {
		if f.Ops&op == 0 || f.Name != "" && f.Name != name {
			continue
		}
		s.seen[f]++
		if n := s.seen[f] - f.Skip; n > 0 && (f.Count == 0 || n <= f.Count) {
			return f
		}
	}
	return nil
}

// release ends all faults and lets hanging requests continue.
func (s *server) release() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.faults = nil
	close(s.thaw)
	s.thaw = make(chan struct{})
}

// change makes a change and logs it. The caller holds mu.
func (s *server) change(c Change) {
	s.log.Changes = append(s.log.Changes, c)
	s.live.apply(&c)
}

// begin makes t the current and durable state.
func (s *server) begin(t tree) {
	s.live, s.log = t, Log{Base: t.clone()}
}

func (s *server) powerFails(seed uint64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.begin(s.log.crash(rand.New(rand.NewPCG(seed, 3))))
}

func (s *server) attributes(id uint64, a *fuse.Attr) fuse.Status {
	n := s.live[id]
	if n == nil {
		return fuse.ENOENT
	}
	*a = fuse.Attr{Ino: id, Mode: syscall.S_IFREG | n.Mode, Nlink: 1, Size: uint64(len(n.Data)), Blocks: uint64(len(n.Pages)) * page / 512, Blksize: page}
	if n.Dir {
		a.Mode, a.Nlink = syscall.S_IFDIR|n.Mode, 2
	} else if !s.named(id) {
		a.Nlink = 0
	}
	return fuse.OK
}

func (s *server) named(id uint64) bool {
	for _, n := range s.live {
		for _, e := range n.Entries {
			if e == id {
				return true
			}
		}
	}
	return false
}

func (s *server) entry(id uint64, name string, out *fuse.EntryOut) fuse.Status {
	s.names[id] = name
	out.NodeId = id
	return s.attributes(id, &out.Attr)
}

func (s *server) Lookup(_ <-chan struct{}, h *fuse.InHeader, name string, out *fuse.EntryOut) fuse.Status {
	if _, st := s.enter(OpLook, name); st != fuse.OK {
		return st
	}
	defer s.mu.Unlock()
	id, _, errno := s.live.find(h.NodeId, name)
	if errno != 0 {
		return fuse.Status(errno)
	}
	return s.entry(id, name, out)
}

func (s *server) name(id uint64) string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.names[id]
}

func (s *server) GetAttr(_ <-chan struct{}, in *fuse.GetAttrIn, out *fuse.AttrOut) fuse.Status {
	if _, st := s.enter(OpLook, s.name(in.NodeId)); st != fuse.OK {
		return st
	}
	defer s.mu.Unlock()
	return s.attributes(in.NodeId, &out.Attr)
}

func (s *server) SetAttr(_ <-chan struct{}, in *fuse.SetAttrIn, out *fuse.AttrOut) fuse.Status {
	if _, st := s.enter(OpAllocate, s.name(in.NodeId)); st != fuse.OK {
		return st
	}
	defer s.mu.Unlock()
	if size, is := in.GetSize(); is {
		s.change(Change{Kind: Truncate, Node: in.NodeId, Length: int64(size)})
	}
	if mode, is := in.GetMode(); is {
		s.change(Change{Kind: Chmod, Node: in.NodeId, Mode: mode & 0o7777})
	}
	return s.attributes(in.NodeId, &out.Attr)
}

func (s *server) make(dir uint64, name string, isDir bool, mode uint32) uint64 {
	s.next++
	s.change(Change{Kind: Make, Node: dir, Name: name, Of: s.next, Dir: isDir, Mode: mode})
	return s.next
}

func (s *server) Mkdir(_ <-chan struct{}, in *fuse.MkdirIn, name string, out *fuse.EntryOut) fuse.Status {
	if _, st := s.enter(OpEntries, name); st != fuse.OK {
		return st
	}
	defer s.mu.Unlock()
	return s.entry(s.make(in.NodeId, name, true, in.Mode), name, out)
}

func (s *server) Create(_ <-chan struct{}, in *fuse.CreateIn, name string, out *fuse.CreateOut) fuse.Status {
	if _, st := s.enter(OpOpen, name); st != fuse.OK {
		return st
	}
	defer s.mu.Unlock()
	return s.entry(s.make(in.NodeId, name, false, in.Mode), name, &out.EntryOut)
}

func (s *server) Open(_ <-chan struct{}, in *fuse.OpenIn, out *fuse.OpenOut) fuse.Status {
	if _, st := s.enter(OpOpen, s.name(in.NodeId)); st != fuse.OK {
		return st
	}
	s.mu.Unlock()
	return fuse.OK
}

func (s *server) OpenDir(_ <-chan struct{}, in *fuse.OpenIn, out *fuse.OpenOut) fuse.Status {
	return s.Open(nil, in, out)
}

func (s *server) ReadDir(_ <-chan struct{}, in *fuse.ReadIn, out *fuse.DirEntryList) fuse.Status {
	if _, st := s.enter(OpLook, s.name(in.NodeId)); st != fuse.OK {
		return st
	}
	defer s.mu.Unlock()
	n := s.live[in.NodeId]
	names := slices.Sorted(maps.Keys(n.Entries))
	for i := int(in.Offset); i < len(names); i++ {
		id := n.Entries[names[i]]
		mode := uint32(syscall.S_IFREG)
		if s.live[id].Dir {
			mode = syscall.S_IFDIR
		}
		if !out.AddDirEntry(fuse.DirEntry{Name: names[i], Mode: mode, Ino: id, Off: uint64(i + 1)}) {
			break
		}
	}
	return fuse.OK
}

func (s *server) Unlink(_ <-chan struct{}, h *fuse.InHeader, name string) fuse.Status {
	if _, st := s.enter(OpEntries, name); st != fuse.OK {
		return st
	}
	defer s.mu.Unlock()
	if _, _, errno := s.live.find(h.NodeId, name); errno != 0 {
		return fuse.Status(errno)
	}
	s.change(Change{Kind: Remove, Node: h.NodeId, Name: name})
	return fuse.OK
}

func (s *server) Rmdir(_ <-chan struct{}, h *fuse.InHeader, name string) fuse.Status {
	return s.Unlink(nil, h, name)
}

func (s *server) Rename(_ <-chan struct{}, in *fuse.RenameIn, from, to string) fuse.Status {
	if _, st := s.enter(OpRename, to); st != fuse.OK {
		return st
	}
	defer s.mu.Unlock()
	id, _, errno := s.live.find(in.NodeId, from)
	if errno != 0 {
		return fuse.Status(errno)
	}
	s.names[id] = to
	s.change(Change{Kind: Rename, Node: in.NodeId, Name: from, Of: in.Newdir, To: to})
	return fuse.OK
}

func (s *server) Read(_ <-chan struct{}, in *fuse.ReadIn, _ []byte) (fuse.ReadResult, fuse.Status) {
	f, st := s.enter(OpRead, s.name(in.NodeId))
	if st != fuse.OK {
		return nil, st
	}
	defer s.mu.Unlock()
	data := s.live[in.NodeId].Data
	from := min(in.Offset, uint64(len(data)))
	b := bytes.Clone(data[from:min(in.Offset+uint64(in.Size), uint64(len(data)))])
	if f != nil && f.Lie {
		for i := range b {
			b[i] ^= 0x55
		}
	}
	return fuse.ReadResultData(b), fuse.OK
}

func (s *server) Write(_ <-chan struct{}, in *fuse.WriteIn, data []byte) (uint32, fuse.Status) {
	f, st := s.enter(OpWrite, s.name(in.NodeId))
	if st != fuse.OK {
		return 0, st
	}
	defer s.mu.Unlock()
	if f != nil && f.Short && len(data) > sector {
		data = data[:len(data)/2/sector*sector]
	}
	if st := s.room(in.NodeId, int64(in.Offset), int64(len(data))); st != fuse.OK {
		return 0, st
	}
	s.change(Change{Kind: Write, Node: in.NodeId, Offset: int64(in.Offset), Data: bytes.Clone(data)})
	if in.Flags&(syscall.O_DSYNC|syscall.O_SYNC) != 0 {
		s.change(Change{Kind: Sync, Node: in.NodeId})
	}
	return uint32(len(data)), fuse.OK
}

// room reports whether there is space for a range of a file. The caller holds mu.
func (s *server) room(id uint64, offset, length int64) fuse.Status {
	if s.space == 0 {
		return fuse.OK
	}
	need := int64(0)
	for p := offset / page; p*page < offset+length; p++ {
		if !s.live[id].Pages[p] {
			need += page
		}
	}
	if s.live.used()+need > s.space {
		return fuse.Status(syscall.ENOSPC)
	}
	return fuse.OK
}

func (s *server) Fallocate(_ <-chan struct{}, in *fuse.FallocateIn) fuse.Status {
	if _, st := s.enter(OpAllocate, s.name(in.NodeId)); st != fuse.OK {
		return st
	}
	defer s.mu.Unlock()
	c := Change{Node: in.NodeId, Offset: int64(in.Offset), Length: int64(in.Length)}
	switch {
	case in.Mode&unix.FALLOC_FL_PUNCH_HOLE != 0:
		c.Kind, c.Dir = Zero, true
	case in.Mode&unix.FALLOC_FL_ZERO_RANGE != 0:
		c.Kind = Zero
	case in.Mode&^unix.FALLOC_FL_KEEP_SIZE == 0:
		if st := s.room(in.NodeId, c.Offset, c.Length); st != fuse.OK {
			return st
		}
		c.Kind, c.Dir = Allocate, in.Mode == 0
	default:
		return fuse.Status(syscall.EOPNOTSUPP)
	}
	s.change(c)
	return fuse.OK
}

func (s *server) Fsync(_ <-chan struct{}, in *fuse.FsyncIn) fuse.Status {
	return s.sync(OpSync, in.NodeId)
}

func (s *server) FsyncDir(_ <-chan struct{}, in *fuse.FsyncIn) fuse.Status {
	return s.sync(OpSyncDir, in.NodeId)
}

func (s *server) sync(op Op, id uint64) fuse.Status {
	if _, st := s.enter(op, s.name(id)); st != fuse.OK {
		return st
	}
	defer s.mu.Unlock()
	s.change(Change{Kind: Sync, Node: id})
	return fuse.OK
}

func (s *server) GetXAttr(_ <-chan struct{}, h *fuse.InHeader, attr string, dest []byte) (uint32, fuse.Status) {
	s.mu.Lock()
	defer s.mu.Unlock()
	v, there := s.live[h.NodeId].Attrs[attr]
	switch {
	case !there:
		return 0, fuse.ENOATTR
	case len(dest) == 0:
		return uint32(len(v)), fuse.OK
	case len(v) > len(dest):
		return uint32(len(v)), fuse.ERANGE
	}
	return uint32(copy(dest, v)), fuse.OK
}

func (s *server) SetXAttr(_ <-chan struct{}, in *fuse.SetXAttrIn, attr string, data []byte) fuse.Status {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.change(Change{Kind: SetAttr, Node: in.NodeId, Name: attr, Data: bytes.Clone(data)})
	return fuse.OK
}

func (s *server) StatFs(_ <-chan struct{}, _ *fuse.InHeader, out *fuse.StatfsOut) fuse.Status {
	if _, st := s.enter(OpLook, ""); st != fuse.OK {
		return st
	}
	defer s.mu.Unlock()
	total := s.space
	if total == 0 {
		total = 1 << 40
	}
	free := uint64(max(total-s.live.used(), 0)) / page
	out.Blocks, out.Bsize, out.Bfree, out.Bavail, out.NameLen = uint64(total)/page, page, free, free, 255
	return fuse.OK
}

func (s *server) Access(<-chan struct{}, *fuse.AccessIn) fuse.Status { return fuse.OK }
func (s *server) Flush(<-chan struct{}, *fuse.FlushIn) fuse.Status   { return fuse.OK }
