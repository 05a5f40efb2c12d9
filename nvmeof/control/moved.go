package control

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"os"

	"golang.org/x/sys/unix"

	"github.com/nvmeof-go/nvmeof/backend/memory"
	"github.com/nvmeof-go/nvmeof/nvmeof/config"
	"github.com/nvmeof-go/nvmeof/nvmeof/target"
)

// A Moved is a target with its document on its way to another Manager, of this process or
// another: see [Export].
type Moved struct {
	Document *config.Document // what the target is
	Saved    *config.Document // what its file said when it was last read or written
	Target   *target.Moved    // nil: it could not be moved, and hosts connect again
	// Memory has the namespaces that are memory, and Offsets where they lie in it, by a name for
	// them. It is the Manager's that has it in [Config.Moved]. Nil: there are none.
	Memory  *memory.Pool
	Offsets map[string]int64
	// Failed is why stores take no writes ([backend.Failer]), by the same names: another Manager opens them
	// so, as hosts know nothing of that.
	Failed map[string]string
	// Files are descriptors of the caller's own that go along, by names of its own.
	Files map[string]*os.File
}

// Export gives up the target for [Config.Moved] of another Manager, and closes this one without a
// word to hosts, who see that commands take longer. It fails, and everything goes on, if
// something of the target cannot move, or a store does not answer until ctx ends. Where closing
// fails, or connections are lost because moving them has failed half way, it returns both what there is
// and the error: the target has ended then.
func Export(ctx context.Context, m *Manager) (*Moved, error) {
	m.mu.Lock()
	if m.closed {
		m.mu.Unlock()
		return nil, ErrClosed
	}
	x, err := export(ctx, m)
	if x == nil {
		m.mu.Unlock()
		return nil, err
	}
	m.handed.Store(true)
	beginClose(m)
	m.mu.Unlock()
	return x, errors.Join(err, finish(m))
}

// export is Export with mu held, but for closing.
func export(ctx context.Context, m *Manager) (*Moved, error) {
	if err := movable(m); err != nil {
		return nil, err
	}
	x := &Moved{Document: m.doc, Saved: m.saved, Offsets: map[string]int64{}, Files: map[string]*os.File{}}
	for key, h := range m.stores.held {
		if err := x.add(key, h); err != nil {
			return nil, err
		}
	}
	for key, was := range m.stores.moved { // namespaces of it wait
		x.Offsets[string(key)] = was.offset
	}
	var mover *target.Mover
	var err error
	if x.Memory, err = another(m.stores.pool); err == nil {
		mover, err = target.NewMover(m.target) // until it suspends or resumes no host can connect
	}
	if err != nil {
		return nil, errors.Join(err, x.Close())
	}
	if err = mover.Suspend(ctx); err == nil {
		x.Failed = m.stores.failures() // no command is under way that could add one
		x.Target, err = mover.Export(ctx)
	}
	if err != nil && !mover.Ended() {
		return nil, errors.Join(err, x.Close())
	}
	return x, err
}

// WithoutHosts returns the same without the connections of hosts, for when nobody can go on with them:
// descriptors of its own keep the memory.
func (x *Moved) WithoutHosts() (*Moved, error) {
	y := &Moved{Document: x.Document, Saved: x.Saved, Offsets: maps.Clone(x.Offsets), Failed: x.Failed, Files: map[string]*os.File{}}
	err := duplicate(y.Files, x.Files)
	if err == nil {
		y.Memory, err = another(x.Memory)
	}
	if err != nil {
		return nil, errors.Join(err, y.Close())
	}
	return y, nil
}

// another is a pool of the same memory with a descriptor of its own; nil: there is no memory.
func another(p *memory.Pool) (*memory.Pool, error) {
	if p == nil {
		return nil, nil
	}
	f, end := p.File()
	if f == nil {
		return nil, nil
	}
	return memory.OpenPool(f, end)
}

func duplicate(to, from map[string]*os.File) error {
	for name, f := range from {
		fd, err := unix.FcntlInt(f.Fd(), unix.F_DUPFD_CLOEXEC, 0)
		if err != nil {
			return fmt.Errorf("descriptor of %s: %w", f.Name(), err)
		}
		to[name] = os.NewFile(uintptr(fd), f.Name())
	}
	return nil
}

// movable refuses while something is under way that would be forgotten.
func movable(m *Manager) error {
	for l := range m.leaving {
		return fmt.Errorf("%s is being removed, and waits for commands that its store has not finished", l.what)
	}
	m.stores.begin(m.changeTimeout)
	for key, h := range m.stores.held {
		if h.as.Memory != nil {
			continue
		}
		if why := m.stores.detachment(key); why != nil {
			return fmt.Errorf("%s was removed or replaced, and what hosts have written is in no file that another process could open (%w). Put it back first; "+
				"one that has no name any more cannot be: copy it, remove the namespace, and add it with the copy", h.as.Path(), why)
		}
	}
	return saveRecords(m)
}

// add notes where the memory of a store lies, which is about to be closed.
func (x *Moved) add(key storeKey, h *heldStore) error {
	s, ok := h.store.(interface{ Offset() int64 })
	if !ok || h.as.Memory == nil {
		return nil
	}
	if s.Offset() < 0 {
		return fmt.Errorf("namespace %d is memory that ends with its process", h.as.NSID)
	}
	x.Offsets[string(key)] = s.Offset()
	return nil
}

// Close gives up what nobody goes on with.
func (x *Moved) Close() error {
	var errs []error
	for _, f := range x.Files {
		errs = append(errs, f.Close())
	}
	if x.Memory != nil {
		errs = append(errs, x.Memory.Close())
	}
	if x.Target != nil {
		for _, d := range x.Target.Devices {
			errs = append(errs, d.Moved.Close())
		}
	}
	return errors.Join(errs...)
}

// Adopt continues the associations of the hosts of [Config.Moved]. Call it after the document was
// applied. Hosts are served once the returned function is called; see [target.Adopt].
func Adopt(m *Manager) (begin func(), err error) {
	if m.cfg.Moved == nil || m.cfg.Moved.Target == nil {
		return nil, errors.New("there is no target to go on with")
	}
	adopted, err := target.Adopt(m.target, m.cfg.Moved.Target)
	if err != nil {
		return nil, err
	}
	return func() {
		m.stores.pool.Own()
		adopted()
	}, nil
}

// A takeOver is the body of a request to be taken over.
type takeOver struct {
	Socket config.Path `json:"socket" doc:"Socket of the process that takes over the hosts."`
}

// errNoTakeOver is what a Manager says that nobody has told how.
var errNoTakeOver = &busyError{"this target cannot be taken over by another process"}

func serveTakeOver(c *call) (any, error) {
	var body takeOver
	if err := config.ParsePart("", c.body, &body); err != nil {
		return nil, err
	}
	switch {
	case body.Socket == "":
		return nil, config.Problems{{Path: "socket", Text: "it is missing"}}
	case c.manager.cfg.TakeOver == nil:
		return nil, errNoTakeOver
	}
	if err := c.manager.cfg.TakeOver(string(body.Socket)); err != nil {
		return nil, &busyError{err.Error()}
	}
	return done{}, nil
}
