package volumes

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/google/uuid"

	"github.com/nvmeof-go/nvmeof/nvmeof"
	"github.com/nvmeof-go/nvmeof/nvmeof/config"
	"github.com/nvmeof-go/nvmeof/nvmeof/control"
)

// An ID identifies a volume.
type ID struct {
	Target string
	UUID   uuid.UUID
}

func (i ID) String() string { return i.Target + "/" + i.UUID.String() }

// ParseID is the inverse of ID.String.
func ParseID(s string) (ID, error) {
	name, text, _ := strings.Cut(s, "/")
	u, err := uuid.Parse(text)
	id := ID{name, u}
	if err != nil || id.String() != s || !targetName.MatchString(name) {
		return ID{}, fmt.Errorf("%s: %w", nvmeof.Printable(s), ErrNotFound)
	}
	return id, nil
}

var (
	// ErrNotFound is returned if the volume does not exist.
	ErrNotFound = errors.New("no such volume")
	// ErrTarget is returned if the target of a volume is not in the configuration, so that it is not known whether the
	// volume exists.
	ErrTarget = errors.New("a volume cannot be deleted or unpublished if its target was renamed or removed: add the target to the driver's configuration again under that name")
)

// A Volume describes an existing volume.
type Volume struct {
	ID
	Subsystem nvmeof.NQN
	NSID      int
	Size      int64
	Kind      Kind
	Hosts     []nvmeof.NQN         // those that may use it
	Grants    map[nvmeof.NQN]Grant // their access
}

// A Kind is the kind of a volume's store.
type Kind string

// Kinds of stores.
const (
	File   Kind = "file"
	RBD    Kind = "rbd"
	Memory Kind = "memory"
)

// volumeOf returns a namespace as a volume; nil if it was not created by a driver.
func volumeOf(t *target, s *config.Subsystem, n *config.Namespace) *Volume {
	v := &Volume{ID: ID{t.Name, uuid.UUID(n.UUID)}, Subsystem: s.NQN, NSID: n.NSID, Hosts: control.Granted(s, n.NSID)}
	switch {
	case n.UUID == config.UUID{}:
		return nil
	case n.File != nil && n.File.Size > 0:
		v.Kind, v.Size = File, int64(n.File.Size)
	case n.RBD != nil && n.RBD.Size > 0:
		v.Kind, v.Size = RBD, int64(n.RBD.Size)
	case n.Memory != nil:
		v.Kind, v.Size = Memory, int64(n.Memory.Size)
	default:
		return nil
	}
	v.Grants = map[nvmeof.NQN]Grant{}
	for _, h := range s.Hosts {
		if slices.Contains(v.Hosts, h.NQN) {
			v.Grants[h.NQN] = grantOf(h, n.NSID)
		}
	}
	return v
}

// grantOf returns the access of a host to a namespace, and its restrictions on other hosts.
func grantOf(h *config.Host, nsid int) Grant {
	for _, r := range h.Namespaces {
		if r.NSID == nsid {
			return Grant{ReadOnly: r.Access == "read", Only: r.Only, NoWriter: r.NoWriter}
		}
	}
	return Grant{ReadOnly: h.Access == "read"}
}

// subsystem returns the subsystem of a target's volumes; an empty one if it does not exist yet.
func (t *target) subsystem(ctx context.Context) (*config.Subsystem, error) {
	s := new(config.Subsystem)
	err := t.client.Do(ctx, "GET", control.Path("subsystems", string(t.nqn)), nil, nil, s)
	if isCode(err, control.CodeNotFound) {
		return &config.Subsystem{NQN: t.nqn}, nil
	}
	return s, err
}

func (t *target) find(ctx context.Context, u uuid.UUID) (*Volume, *config.Subsystem, error) {
	s, err := t.subsystem(ctx)
	if err != nil {
		return nil, nil, err
	}
	for _, n := range s.Namespaces {
		if v := volumeOf(t, s, n); v != nil && v.UUID == u {
			return v, s, nil
		}
	}
	return nil, s, fmt.Errorf("%s: %w", ID{t.Name, u}, ErrNotFound)
}

func isCode(err error, code control.Code) bool {
	var e *control.Error
	return errors.As(err, &e) && e.Code == code
}

// Find finds a volume.
func (s *Set) Find(ctx context.Context, id ID) (*Volume, error) {
	t := s.named(id.Target)
	if t == nil {
		return nil, fmt.Errorf("%s: the configuration has no target %s: %w", id, id.Target, ErrTarget)
	}
	v, _, err := t.find(ctx, id.UUID)
	return v, err
}

// List returns all volumes, sorted by ID. It fails if a target does not answer, since the caller would take its
// volumes for deleted.
func (s *Set) List(ctx context.Context) (all []*Volume, err error) {
	for _, t := range s.targets {
		sub, err := t.subsystem(ctx)
		if err != nil {
			return nil, err
		}
		for _, n := range sub.Namespaces {
			if v := volumeOf(t, sub, n); v != nil {
				all = append(all, v)
			}
		}
	}
	slices.SortFunc(all, func(a, b *Volume) int { return strings.Compare(a.String(), b.String()) })
	return all, nil
}
