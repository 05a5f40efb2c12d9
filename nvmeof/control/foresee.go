package control

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"time"

	"github.com/google/uuid"
	"golang.org/x/sys/unix"

	"github.com/nvmeof-go/nvmeof/backend"
	"github.com/nvmeof-go/nvmeof/capsule"
	"github.com/nvmeof-go/nvmeof/nvmeof/config"
	"github.com/nvmeof-go/nvmeof/nvmeof/events"
	"github.com/nvmeof-go/nvmeof/nvmeof/target"
)

// Foresee finds the faults that a target would meet if it started now on this machine: listeners
// and namespaces that would wait, hosts whose keys it could not read, and more memory to export
// than there is. It creates, changes and locks nothing; files of a running target are reported as
// in use. state and getenv are those of its [Config]. A file system or device that hangs is
// reported in the words of a [HungError].
func Foresee(ctx context.Context, doc *config.Document, state string, getenv func(string) string) config.Problems {
	return foresee(ctx, doc, state, getenv, startTimeout)
}

// foresee is Foresee where the first that hangs has that time.
func foresee(ctx context.Context, doc *config.Document, state string, getenv func(string) string, timeout time.Duration) (found config.Problems) {
	add := func(path string, err error, fix string) {
		if err != nil {
			found = append(found, config.Problem{Path: path, Text: err.Error(), Fix: fix})
		}
	}
	r := new(reacher)
	r.begin(timeout)
	foreseeReports(r, doc, add)
	foreseeListeners(doc, add)
	astray := misplaced(r, namespacesOf(doc))
	for i, s := range doc.Subsystems {
		if s.State != "" {
			add(fmt.Sprintf("subsystems[%d].state", i), r.ask(s.State, func() error {
				if err := known(state).recordGone(s.State, stateRecord); err != nil {
					return err
				}
				return known(state).checkState(s.State)
			}),
				"at a start the namespaces of the subsystem wait until it is right, and others are served")
		}
		for j, h := range s.Hosts {
			path := fmt.Sprintf("subsystems[%d].hosts[%d]", i, j)
			for k, file := range []config.KeyFile{h.KeyFile, h.ControllerKeyFile} {
				field := path + []string{".key-file", ".controller-key-file"}[k]
				doubts, err := r.foreseeKey(ctx, file, getenv)
				found = append(found, notices(field, doubts)...)
				add(field, err, "at a start the host is not let in until it is right, and others are served")
			}
		}
		for j, n := range s.Namespaces {
			const fix = "at a start the namespace waits until it is right, and the others are served"
			path := fmt.Sprintf("subsystems[%d].namespaces[%d]", i, j)
			notes, err := reach(r, n.Path(), func() ([]string, error) {
				if err := known(state).gone(n); err != nil {
					return nil, err
				}
				return foreseeStore(n)
			}, nil)
			add(path, err, fix)
			found = append(found, notices(path, notes)...)
			add(path, astray.heldFor(r, s.NQN, n), fix)
			if n.Reservations != "" {
				add(path+".reservations", r.ask(n.Reservations, func() error {
					if err := known(state).recordGone(n.Reservations, reservationRecord); err != nil {
						return err
					}
					return known(state).checkReservations(s.NQN, n)
				}), fix)
			}
		}
	}
	return append(found, ForeseeMemory(doc)...)
}

// foreseeReports is about the files of events and of the audit.
func foreseeReports(r *reacher, doc *config.Document, add func(string, error, string)) {
	if p := doc.Events.File; p != "" {
		add("events.file", r.ask(p, func() error { return cmp.Or(foreseeFolder(filepath.Dir(string(p))), events.Check(string(p))) }),
			"a target keeps events in memory alone until then")
	}
	if p := doc.Audit.File; p != "" {
		add("audit.file", r.ask(p, func() error {
			info, err := os.Stat(string(p))
			switch {
			case err != nil:
				return foreseeFolder(filepath.Dir(string(p)))
			case info.IsDir():
				return fmt.Errorf("%s is a directory", p)
			case info.Mode()&(fs.ModeDevice|fs.ModeCharDevice) == fs.ModeDevice:
				return fmt.Errorf("%s is a block device, and keeps its data: name a file", p)
			}
			return nil
		}), "lines are lost until then, and hosts are served")
	}
}

// foreseeListeners is about the addresses at which hosts connect.
func foreseeListeners(doc *config.Document, add func(string, error, string)) {
	for i, l := range doc.Listeners {
		if !l.Wildcard() && lacks(l.Address.Addr()) {
			add(fmt.Sprintf("listeners[%d].address", i), fmt.Errorf("%v is no address of this machine now (ip address shows them)", l.Address.Addr()),
				"at a start the listener waits for it")
		}
	}
}

// lacks reports whether this machine does not have an address now, and may not use it all the same.
func lacks(addr netip.Addr) bool {
	c, err := net.ListenUDP("udp", net.UDPAddrFromAddrPort(netip.AddrPortFrom(addr, 0)))
	if err == nil {
		_ = c.Close()
	}
	return errors.Is(err, unix.EADDRNOTAVAIL)
}

func (r *reacher) foreseeKey(ctx context.Context, file config.KeyFile, getenv func(string) string) (doubts []string, err error) {
	if file == "" {
		return nil, nil
	}
	path, err := file.Expand(getenv)
	if err != nil {
		return nil, err
	}
	_, warning, err := r.readKey(ctx, path)
	if warning != "" {
		doubts = []string{warning}
	}
	return doubts, err
}

// foreseeStore opens what a namespace exports as it is, for a moment, and has the sentences about it.
func foreseeStore(n *config.Namespace) (notes []string, err error) {
	asItIs := *n
	switch {
	case n.Memory != nil:
		return nil, nil
	case n.Block != nil:
		b := *n.Block
		b.ReadOnly = true // the end of writing makes udev look at a device
		asItIs.Block = &b
	case n.RBD != nil:
		return nil, foreseeImage(asItIs)
	default:
		_, err := os.Stat(string(n.File.Path))
		if errors.Is(err, fs.ErrNotExist) && n.File.Size > 0 {
			return nil, foreseeFile(n.File)
		}
		f := *n.File
		f.Size = 0
		asItIs.File = &f
		if info, err := os.Stat(string(f.Path)); err == nil && info.Size() == 0 && n.File.Size > 0 {
			return nil, nil // it gets its size
		}
	}
	store, notes, err := OpenStore(&asItIs, nil)
	if err != nil {
		return nil, err
	}
	return doubtsAbout(store, notes), store.Close()
}

// doubtsAbout are the sentences about what a store exports. Those about how the machine does its I/O are in the log: the
// administrator of many namespaces would be told the same of each.
func doubtsAbout(store backend.Store, notes []string) []string {
	s, ok := store.(interface{ EngineNotes() []string })
	if !ok {
		return notes
	}
	engine := s.EngineNotes()
	return slices.DeleteFunc(slices.Clone(notes), func(note string) bool { return slices.Contains(engine, note) })
}

// notices are what an administrator is told of a store that can be opened.
func notices(path string, notes []string) (found config.Problems) {
	for _, note := range notes {
		found = append(found, config.Problem{Path: path, Text: note})
	}
	return found
}

// foreseeImage opens an image without its lock, unless it is to be created.
func foreseeImage(n config.Namespace) error {
	i := *n.RBD
	i.ReadOnly, i.Size = true, 0
	creates := n.RBD.Size > 0
	n.RBD = &i
	store, _, err := OpenStore(&n, nil)
	switch {
	case err == nil:
		return store.Close()
	case creates && errors.Is(err, fs.ErrNotExist):
		return nil
	}
	return err
}

// foreseeFolder is about a file that is to be made there.
func foreseeFolder(dir string) error {
	info, err := os.Stat(dir)
	if err == nil && !info.IsDir() {
		err = fmt.Errorf("%s is no directory", dir)
	}
	return err
}

// foreseeFile is about a file that is to be made.
func foreseeFile(f *config.File) error {
	dir := filepath.Dir(string(f.Path))
	if err := foreseeFolder(dir); err != nil || f.Thin {
		return err
	}
	var s unix.Statfs_t
	if unix.Statfs(dir, &s) == nil && s.Blocks > 0 && int64(s.Bavail)*int64(s.Bsize) < int64(f.Size) {
		return fmt.Errorf("%v are needed for %s, and %d bytes are free: free some space, or make the file thin, which may run out of space later",
			f.Size, f.Path, int64(s.Bavail)*int64(s.Bsize))
	}
	return nil
}

// ownerConfig is a namespace as a record of reservations knows it.
func ownerConfig(n *config.Namespace) target.NamespaceConfig {
	return target.NamespaceConfig{NSID: capsule.NSID(n.NSID), UUID: uuid.UUID(n.UUID), NGUID: n.NGUID, EUI64: n.EUI64, Name: exportName(n)}
}
