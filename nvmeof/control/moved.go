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

// A Moved is a target and its document on the way to another Manager, in this process or another: see [Export].
type Moved struct {
	Document *config.Document // present document of the target
	Saved    *config.Document // content of its file when it was last read or written
	Target   *target.Moved    // nil: it could not be moved, and hosts have to reconnect
	// Memory has the namespaces in memory; Offsets has their offsets there by name. The Manager that has it in
	// [Config.Moved] owns it. Nil: there are none.
	Memory  *memory.Pool
	Offsets map[string]int64
	// Failed is why stores accept no writes ([backend.Failer]), by the same names. Another Manager makes them fail
	// again when it opens them, since hosts do not notice the move.
	Failed map[string]string
	// Files are descriptors of the caller that are moved along, by names that it chooses.
	Files map[string]*os.File
}

// Export gives up the target, for [Config.Moved] of another Manager, and closes this one. Hosts are not notified;
// they only see that commands take longer. Export fails, and this Manager continues, if a part of the target cannot
// be moved, or if a store does not answer before ctx ends. If closing fails, or connections are lost since the move
// failed half way, it returns both what it has and the error; then the target has ended.
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

// export is Export without closing. The caller holds mu.
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
	for key, was := range m.stores.moved { // their namespaces still wait
		x.Offsets[string(key)] = was.offset
	}
	var mover *target.Mover
	var err error
	if x.Memory, err = another(m.stores.pool); err == nil {
		mover, err = target.NewMover(m.target) // no host can connect until it suspends or resumes
	}
	if err != nil {
		return nil, errors.Join(err, x.Close())
	}
	if err = mover.Suspend(ctx); err == nil {
		x.Failed = m.stores.failures() // no command is in progress that could cause another failure
		x.Target, err = mover.Export(ctx)
	}
	if err != nil && !mover.Ended() {
		return nil, errors.Join(err, x.Close())
	}
	return x, err
}

// WithoutHosts returns a copy without the connections of hosts, for the case that nobody can continue with them. It
// has its own descriptors, which keep the memory.
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

// another returns a pool of the same memory with a descriptor of its own, or nil if there is no memory.
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

// movable returns an error if something is in progress that the move would lose.
func movable(m *Manager) error {
	for l := range m.leaving {
		return fmt.Errorf("%s is being removed, and waits for commands that its store has not completed", l.what)
	}
	m.stores.begin(m.changeTimeout)
	for key, h := range m.stores.held {
		if h.as.Memory != nil {
			continue
		}
		if why := m.stores.detachment(key); why != nil {
			return fmt.Errorf("%s was removed or replaced, so another process could not open the file with the hosts' data (%w). Move it back first; "+
				"if the file has no name any more, copy it, remove the namespace, and add it with the copy", h.as.Path(), why)
		}
	}
	return saveRecords(m)
}

// add stores the offset of a memory store that is about to be closed.
func (x *Moved) add(key storeKey, h *heldStore) error {
	s, ok := h.store.(interface{ Offset() int64 })
	if !ok || h.as.Memory == nil {
		return nil
	}
	if s.Offset() < 0 {
		return fmt.Errorf("the memory of namespace %d cannot be moved to another process", h.as.NSID)
	}
	x.Offsets[string(key)] = s.Offset()
	return nil
}

// Close closes everything, if no Manager continues with it.
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

// Adopt continues the associations of the hosts of [Config.Moved]. Call it after the document was applied. Hosts
// are served once the returned function is called; see [target.Adopt].
func Adopt(m *Manager) (begin func(), err error) {
	if m.cfg.Moved == nil || m.cfg.Moved.Target == nil {
		return nil, errors.New("there is no target to take over")
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

// A takeOver is the body of a takeover request.
type takeOver struct {
	Socket config.Path `json:"socket" doc:"Socket of the process that takes over the hosts."`
}

// errNoTakeOver is the error of a Manager without Config.TakeOver.
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
