package volumes

import (
	"context"
	"errors"
	"fmt"
	"net/netip"

	"github.com/nvmeof-go/nvmeof/nvmeof"
	"github.com/nvmeof-go/nvmeof/nvmeof/config"
	"github.com/nvmeof-go/nvmeof/nvmeof/control"
)

var (
	// ErrInUse says that a volume is published.
	ErrInUse = errors.New("it is published")
	// ErrFixed says that the size of a volume cannot be changed.
	ErrFixed = errors.New("memory keeps its size")
	// ErrUnknown says that nobody knows how much there is.
	ErrUnknown = errors.New("what memory and pools of Ceph have left is not known")
	// ErrAccess says that a host has a volume with another access.
	ErrAccess = errors.New("the host has it with another access")
)

// of is the path of a call for a volume.
func (v *Volume) of(parts ...string) string {
	return control.Path(append([]string{"subsystems", string(v.Subsystem), "namespaces", fmt.Sprint(v.NSID)}, parts...)...)
}

// options are those of a change of a volume: it is saved, and of this volume, whatever has its place by now.
func (v *Volume) options() []string { return []string{"save", "uuid=" + v.UUID.String()} }

// Delete removes a volume and its data. One that is not there is removed; one that is published is
// not.
func (s *Set) Delete(ctx context.Context, id ID) error {
	v, err := s.Find(ctx, id)
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
		return nil // somebody was faster
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
		// Whoever made it larger may have been ended before it was saved.
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

// A Grant is what a host may do with a volume, and beside whom.
type Grant struct {
	ReadOnly bool
	Only     bool // no other host may use it
	NoWriter bool // no other host may write to it
}

// Grant lets a host use a volume, unless others have it whom the grant excludes.
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
	if isCode(err, control.CodeInvalid) { // a target of a version before does not know it, nor records it
		err = put(body + "}")
	}
	return v, err
}

// within reports whether a host that was granted g has nothing more, and excludes nobody more, by a grant like the other
// one. Targets of versions before did not record whom a grant excludes.
func (g Grant) within(other Grant) bool {
	return g.ReadOnly == other.ReadOnly && (!g.Only || other.Only) && (!g.NoWriter || other.NoWriter || other.Only)
}

// Withdraw takes a volume from a host, or from all if it is empty. When it returns the host has
// nothing under way there, and nothing that it sent comes to be written. A volume that is not there has nobody.
func (s *Set) Withdraw(ctx context.Context, id ID, host nvmeof.NQN) error {
	v, err := s.Find(ctx, id)
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
	// A call before may have withdrawn it without seeing the end of what hosts had under way.
	err = s.named(id.Target).client.Do(ctx, "DELETE", v.of("hosts"), v.options(), nil, nil)
	if isCode(err, control.CodeNotFound) { // the volume is gone, or the target is of a version before
		return nil
	}
	return err
}

// Free is how many bytes a volume could have; Request.Target and Request.Directory say where.
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

// Addresses are where hosts connect for a volume.
func (s *Set) Addresses(ctx context.Context, v *Volume) (at []string, err error) {
	t := s.named(v.Target)
	for _, a := range t.Addresses {
		x, _ := nvmeof.ParseListen(a) // checked as it was read
		at = append(at, x.String())
	}
	if len(at) > 0 {
		return at, nil
	}
	var listeners []*config.Listener
	if err := t.client.Do(ctx, "GET", "/v1/listeners", nil, nil, &listeners); err != nil {
		return nil, err
	}
	var status control.Status
	if err := t.client.Do(ctx, "GET", "/v1/status", nil, nil, &status); err != nil {
		return nil, err
	}
	for _, l := range listeners {
		if !l.Wildcard() {
			at = append(at, l.Address.String())
		}
	}
	for _, a := range status.Addresses {
		if _, err := netip.ParseAddrPort(a.Address); err == nil {
			at = append(at, a.Address)
		}
	}
	if len(at) == 0 {
		return nil, fmt.Errorf("target %s listens nowhere: nvmeof listener add, or addresses in the configuration of the driver", t.Name)
	}
	return at, nil
}
