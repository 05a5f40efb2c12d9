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

// Foresee returns the faults that a target would have if it started now on this machine. These are listeners and
// namespaces that would wait, unreadable keys of hosts, and exports of more memory than there is. It creates,
// changes and locks nothing; files of a running target are reported as in use. state and getenv are those of its
// [Config]. A file system or device that hangs is reported with the text of a [HungError].
func Foresee(ctx context.Context, doc *config.Document, state string, getenv func(string) string) config.Problems {
	return foresee(ctx, doc, state, getenv, startTimeout)
}

// foresee is Foresee with a time limit for the first file system or device that hangs.
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
	misplaced := findMisplaced(r, namespacesOf(doc))
	for i, s := range doc.Subsystems {
		if s.State != "" {
			add(fmt.Sprintf("subsystems[%d].state", i), r.ask(s.State, func() error {
				if err := known(state).recordGone(s.State, stateRecord); err != nil {
					return err
				}
				return known(state).checkState(s.State)
			}),
				"at a start the namespaces of the subsystem wait until this is corrected; others are served")
		}
		for j, h := range s.Hosts {
			path := fmt.Sprintf("subsystems[%d].hosts[%d]", i, j)
			for k, file := range []config.KeyFile{h.KeyFile, h.ControllerKeyFile} {
				field := path + []string{".key-file", ".controller-key-file"}[k]
				doubts, err := r.foreseeKey(ctx, file, getenv)
				found = append(found, notices(field, doubts)...)
				add(field, err, "at a start the host cannot connect until this is corrected; others can")
			}
		}
		for j, n := range s.Namespaces {
			const fix = "at a start the namespace waits until this is corrected; the others are served"
			path := fmt.Sprintf("subsystems[%d].namespaces[%d]", i, j)
			notes, err := reach(r, n.Path(), func() ([]string, error) {
				if err := known(state).gone(n); err != nil {
					return nil, err
				}
				return foreseeStore(n)
			}, nil)
			add(path, err, fix)
			found = append(found, notices(path, notes)...)
			add(path, misplaced.reservedElsewhere(r, s.NQN, n), fix)
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

// foreseeReports checks the files of events and of the audit.
func foreseeReports(r *reacher, doc *config.Document, add func(string, error, string)) {
	if p := doc.Events.File; p != "" {
		add("events.file", r.ask(p, func() error { return cmp.Or(foreseeFolder(filepath.Dir(string(p))), events.Check(string(p))) }),
			"until this is corrected, a target keeps events only in memory")
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
				return fmt.Errorf("%s is a block device, which is not overwritten: name a file", p)
			}
			return nil
		}), "until this is corrected, lines are lost; hosts are served")
	}
}

// foreseeListeners checks the addresses at which hosts connect.
func foreseeListeners(doc *config.Document, add func(string, error, string)) {
	for i, l := range doc.Listeners {
		if !l.Wildcard() && lacks(l.Address.Addr()) {
			add(fmt.Sprintf("listeners[%d].address", i), fmt.Errorf("%v is not an address of this machine now (ip address shows them)", l.Address.Addr()),
				"at a start the listener waits for it")
		}
	}
}

// lacks reports whether this machine does not have an address now, and cannot bind it anyway.
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

// foreseeStore opens the store of a namespace briefly without changing it, and returns the notes about it.
func foreseeStore(n *config.Namespace) (notes []string, err error) {
	asItIs := *n
	switch {
	case n.Memory != nil:
		return nil, nil
	case n.Block != nil:
		b := *n.Block
		b.ReadOnly = true // closing a device that is open for writing makes udev examine it
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
			return nil, nil // it will be extended
		}
	}
	store, notes, err := OpenStore(&asItIs, nil)
	if err != nil {
		return nil, err
	}
	return doubtsAbout(store, notes), store.Close()
}

// doubtsAbout returns the notes about a store. It leaves out those about the machine's I/O engine, which are in the
// log: they would be repeated for each of many namespaces.
func doubtsAbout(store backend.Store, notes []string) []string {
	s, ok := store.(interface{ EngineNotes() []string })
	if !ok {
		return notes
	}
	engine := s.EngineNotes()
	return slices.DeleteFunc(slices.Clone(notes), func(note string) bool { return slices.Contains(engine, note) })
}

// notices returns notes as problems at a path.
func notices(path string, notes []string) (found config.Problems) {
	for _, note := range notes {
		found = append(found, config.Problem{Path: path, Text: note})
	}
	return found
}

// foreseeImage opens an image without its lock. It is no error if it is missing and will be created.
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

// foreseeFolder checks the folder of a file that will be created.
func foreseeFolder(dir string) error {
	info, err := os.Stat(dir)
	if err == nil && !info.IsDir() {
		err = fmt.Errorf("%s is not a directory", dir)
	}
	return err
}

// foreseeFile checks the folder and the free space for a file that will be created.
func foreseeFile(f *config.File) error {
	dir := filepath.Dir(string(f.Path))
	if err := foreseeFolder(dir); err != nil || f.Thin {
		return err
	}
	var s unix.Statfs_t
	if unix.Statfs(dir, &s) == nil && s.Blocks > 0 && int64(s.Bavail)*unitOf(&s) < int64(f.Size) {
		return fmt.Errorf("%v are needed for %s, but %d bytes are free: free some space, or make the file thin, which may run out of space later",
			f.Size, f.Path, int64(s.Bavail)*unitOf(&s))
	}
	return nil
}

// ownerConfig returns the identity of a namespace that a record of reservations has.
func ownerConfig(n *config.Namespace) target.NamespaceConfig {
	return target.NamespaceConfig{NSID: capsule.NSID(n.NSID), UUID: uuid.UUID(n.UUID), NGUID: n.NGUID, EUI64: n.EUI64, Name: exportName(n)}
}
