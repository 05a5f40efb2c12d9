package volumes

import (
	"context"
	"errors"
	"fmt"

	"github.com/nvmeof-go/nvmeof/nvmeof"
	"github.com/nvmeof-go/nvmeof/nvmeof/control"
)

var (
	// ErrInUse is returned if a volume is published.
	ErrInUse = errors.New("the volume is published")
	// ErrFixed is returned if the size of a volume cannot be changed.
	ErrFixed = errors.New("the size of a memory volume cannot be changed")
	// ErrUnknown is returned if the free capacity is not known.
	ErrUnknown = errors.New("the free capacity is known only for storage file, not for memory and rbd")
	// ErrAccess is returned if a host has a volume with a different access.
	ErrAccess = errors.New("the volume is already published to the host with another access mode")
)

// of returns the path of a call about a volume.
func (v *Volume) of(parts ...string) string {
	return control.Path(append([]string{"subsystems", string(v.Subsystem), "namespaces", fmt.Sprint(v.NSID)}, parts...)...)
}

// options returns the options of a change to a volume: the change is saved, and applies only if the NSID still belongs
// to this volume.
func (v *Volume) options() []string { return []string{"save", "uuid=" + v.UUID.String()} }

// Delete removes a volume and its data. It succeeds if the volume does not exist, and fails if it is published.
func (s *Set) Delete(ctx context.Context, id ID) error {
	v, err := s.findSure(ctx, id)
	switch {
	case errors.Is(err, ErrNotFound):
		return nil
	case err != nil:
		return err
	case len(v.Hosts) > 0:
		return fmt.Errorf("%s: %w to %s", id, ErrInUse, v.Hosts[0])
	}
	err = s.named(id.Target).client.Do(ctx, "POST", v.of("erase"), append(v.options(), "withdrawn"), nil, nil)
	if isCode(err, control.CodeNotFound) {
		return nil // it was removed concurrently
	}
	return err
}

// Grow makes a volume at least as large as required, and returns its size.
func (s *Set) Grow(ctx context.Context, id ID, required, limit int64) (int64, error) {
	v, err := s.Find(ctx, id)
	if err != nil {
		return 0, err
	}
	t := s.named(id.Target)
	if v.Size >= required {
		if limit > 0 && v.Size > limit {
			return 0, fmt.Errorf("%s has %d bytes: %w", id, v.Size, ErrSize)
		}
		// An earlier call may have been killed after it enlarged the volume and before it saved that.
		return v.Size, t.client.Do(ctx, "PATCH", v.of(), v.options(), []byte("{}"), nil)
	}
	size, err := sizeFor(required, limit)
	switch {
	case err != nil:
		return 0, err
	case v.Kind == Memory:
		return 0, fmt.Errorf("%s: %w", id, ErrFixed)
	}
	body := fmt.Appendf(nil, `{"%s": {"size": "%d"}}`, v.Kind, size)
	return size, t.client.Do(ctx, "PATCH", v.of(), v.options(), body, nil)
}

// A Grant is the access of a host to a volume, and its restrictions on other hosts.
type Grant struct {
	ReadOnly bool
	Only     bool // no other host may use it
	NoWriter bool // no other host may write to it
}

// Grant lets a host use a volume. It fails if other hosts have an access that the grant excludes.
func (s *Set) Grant(ctx context.Context, id ID, host nvmeof.NQN, g Grant) (*Volume, error) {
	v, err := s.Find(ctx, id)
	if err != nil {
		return nil, err
	}
	if has, is := v.Grants[host]; is && !has.within(g) {
		return nil, fmt.Errorf("%s of %s: %w", id, host, ErrAccess)
	}
	for _, other := range v.Hosts {
		if g.NoWriter && other != host && !v.Grants[other].ReadOnly {
			return nil, fmt.Errorf("%s: %w to %s, which may write to it", id, ErrInUse, other)
		}
	}
	access := "write"
	if g.ReadOnly {
		access = "read"
	}
	put := func(body string) error {
		return s.named(id.Target).client.Do(ctx, "PUT", v.of("hosts", string(host)), v.options(), []byte(body), nil)
	}
	body := fmt.Sprintf(`{"access": "%s", "only": %v`, access, g.Only)
	if !g.NoWriter {
		return v, put(body + "}")
	}
	err = put(body + `, "no-writer": true}`)
	if isCode(err, control.CodeInvalid) { // a target of an earlier version does not know no-writer, and does not record it
		err = put(body + "}")
	}
	return v, err
}

// within reports whether other includes at least the access and the restrictions of g. Targets of earlier versions did
// not record the restrictions.
func (g Grant) within(other Grant) bool {
	return g.ReadOnly == other.ReadOnly && (!g.Only || other.Only) && (!g.NoWriter || other.NoWriter || other.Only)
}

// Withdraw takes a volume from a host, or from all hosts if host is empty. When it returns, no command of the host is
// in progress, and none that it has sent will be executed. It succeeds if the volume does not exist.
func (s *Set) Withdraw(ctx context.Context, id ID, host nvmeof.NQN) error {
	v, err := s.findSure(ctx, id)
	if errors.Is(err, ErrNotFound) {
		return nil
	}
	if err != nil {
		return err
	}
	hosts := v.Hosts
	if host != "" {
		hosts = []nvmeof.NQN{host}
	}
	for _, h := range hosts {
		err := s.named(id.Target).client.Do(ctx, "DELETE", v.of("hosts", string(h)), v.options(), nil, nil)
		if err != nil && !isCode(err, control.CodeNotFound) {
			return err
		}
	}
	if host != "" {
		return nil
	}
	// An earlier call may have withdrawn it without waiting for the end of the hosts' commands.
	err = s.named(id.Target).client.Do(ctx, "DELETE", v.of("hosts"), v.options(), nil, nil)
	if isCode(err, control.CodeNotFound) { // the volume is gone, or the target is of an earlier version
		return nil
	}
	return err
}

// Free returns how many bytes a new volume could have, at Request.Target and in Request.Directory.
func (s *Set) Free(ctx context.Context, r Request) (int64, error) {
	t := s.targets[0]
	if r.Target != "" {
		if t = s.named(r.Target); t == nil {
			return 0, nil
		}
	}
	kind, place := t.place(r)
	switch {
	case kind != File:
		return 0, ErrUnknown
	case place == "":
		return 0, fmt.Errorf("target %s has no directory: %w", t.Name, ErrRequest)
	}
	var c control.Capacity
	err := t.client.Do(ctx, "GET", "/v1/capacity", []string{"path=" + place}, nil, &c)
	return c.Free, err
}
