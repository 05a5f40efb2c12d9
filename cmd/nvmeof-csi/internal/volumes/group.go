package volumes

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"time"

	"github.com/nvmeof-go/nvmeof/nvmeof"
	"github.com/nvmeof-go/nvmeof/nvmeof/config"
	"github.com/nvmeof-go/nvmeof/nvmeof/control"
)

// Addresses returns the addresses at which hosts connect for a volume. In a group of gateways, these are the addresses
// of all of them: each serves the volume when the others have failed.
func (s *Set) Addresses(ctx context.Context, v *Volume) (at []string, err error) {
	t := s.named(v.Target)
	for _, a := range t.Addresses {
		x, _ := nvmeof.ParseListen(a) // validated when it was read
		at = append(at, x.String())
	}
	if len(at) > 0 {
		return at, nil
	}
	if at, err = t.addresses(ctx); err != nil {
		return nil, err
	}
	if len(at) == 0 {
		return nil, fmt.Errorf("target %s has no listener address: add one (nvmeof listener add), or set addresses in the driver's configuration", t.Name)
	}
	return at, nil
}

// addresses returns the addresses of a target and, if it is a gateway, of the others.
func (t *target) addresses(ctx context.Context) (at []string, err error) {
	add := func(a string) {
		if _, err := netip.ParseAddrPort(a); err == nil && !slices.Contains(at, a) {
			at = append(at, a)
		}
	}
	var listeners []*config.Listener
	if err := t.client.Do(ctx, "GET", "/v1/listeners", nil, nil, &listeners); err != nil {
		return nil, err
	}
	status, err := t.status(ctx)
	if err != nil {
		return nil, err
	}
	for _, l := range listeners {
		if !l.Wildcard() {
			add(l.Address.String())
		}
	}
	for _, a := range status.Addresses {
		add(a.Address)
	}
	if status.Gateway == nil {
		return at, nil
	}
	all, err := t.gateways(ctx)
	for _, a := range all {
		add(a)
	}
	return at, err
}

// gateways returns the addresses of the gateways of a target's group. Those that have ended come last, since
// connecting to them takes longest: until they are removed from the group they may be started again, and a volume keeps
// its addresses as long as it is published.
func (t *target) gateways(ctx context.Context) (at []string, err error) {
	group, err := t.group(ctx)
	if err != nil {
		return nil, err
	}
	var ended []string
	for _, g := range group.Gateways {
		if g.State == "ended" {
			ended = append(ended, g.Addresses...)
		} else {
			at = append(at, g.Addresses...)
		}
	}
	return append(at, ended...), nil
}

func (t *target) status(ctx context.Context) (s control.Status, err error) {
	err = t.client.Do(ctx, "GET", "/v1/status", nil, nil, &s)
	return s, err
}

func (t *target) group(ctx context.Context) (s control.GroupStatus, err error) {
	err = t.client.Do(ctx, "GET", "/v1/group", nil, nil, &s)
	return s, err
}

// ErrStale is returned if a gateway cannot tell whether a volume exists.
var ErrStale = errors.New("this gateway does not have its group's latest configuration (nvmeof gateway list shows why): use another gateway")

// staleTime is how long a gateway may not have read its group's store. If the store answers, it reads more often.
const staleTime = 10 * time.Second

// findSure is Find for callers that take a volume that is not found for removed. A gateway that is cut off from its
// group's store lists what the group had before, and the volume may have been created since, at another gateway.
func (s *Set) findSure(ctx context.Context, id ID) (*Volume, error) {
	v, err := s.Find(ctx, id)
	if !errors.Is(err, ErrNotFound) {
		return v, err
	}
	t := s.named(id.Target)
	status, failed := t.status(ctx)
	if failed != nil {
		return nil, failed
	}
	if status.Gateway == nil {
		return nil, err
	}
	group, failed := t.group(ctx)
	if failed != nil {
		return nil, failed
	}
	if age := time.Duration(group.Age) * time.Millisecond; age > staleTime || group.Behind != "" {
		return nil, fmt.Errorf("%s: gateway %s: %w", id, group.Gateway, ErrStale)
	}
	return s.Find(ctx, id)
}
