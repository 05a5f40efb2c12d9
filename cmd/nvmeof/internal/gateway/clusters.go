package gateway

import (
	"context"
	"errors"
	"slices"
	"time"

	"github.com/nvmeof-go/nvmeof/backend/rbd"
	"github.com/nvmeof-go/nvmeof/internal/group"
	"github.com/nvmeof-go/nvmeof/nvmeof/config"
)

// extend makes the missing clients of the clusters that a document's images are in. It returns the addresses of all
// clients with their incarnation, or none if all are registered. Images can be opened once registered was called with
// these addresses.
func (c *clients) extend(ctx context.Context, doc *config.Document) (of group.Incarnation, addresses []string, err error) {
	missing, begun := c.missing(doc)
	var errs []error
	for _, at := range missing {
		errs = append(errs, c.add(ctx, at, begun))
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if !c.isUnready() {
		return "", nil, errors.Join(errs...)
	}
	for _, client := range c.all {
		addresses = append(addresses, client.Addresses()...)
	}
	slices.Sort(addresses)
	return c.of, addresses, errors.Join(errs...)
}

// isUnready reports whether the group's store does not have the addresses of all clients yet. Called with mu held.
func (c *clients) isUnready() bool {
	for _, client := range c.all {
		if !client.ready {
			return true
		}
	}
	return false
}

// missing returns the clusters without a client.
func (c *clients) missing(doc *config.Document) (all []rbd.ClientConfig, begun int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.all == nil { // no incarnation has begun
		return nil, c.begun
	}
	for n := range withImages(doc) {
		if at := clusterOf(n.RBD); c.all[at] == nil && !slices.Contains(all, at) {
			all = append(all, at)
		}
	}
	return all, c.begun
}

// add makes a client of a cluster. Before it is used it repeats the fences of the other clients: the fenced
// gateways may have been clients of its cluster, too.
func (c *clients) add(ctx context.Context, at rbd.ClientConfig, begun int) error {
	client, err := c.connectTo(at)
	if err != nil {
		return err
	}
	c.mu.Lock()
	for done := 0; c.begun == begun && c.all != nil && done < len(c.fenced); {
		later := slices.Clone(c.fenced[done:])
		c.mu.Unlock()
		if err := client.Fence(ctx, later, 0); err != nil {
			return errors.Join(err, client.Close())
		}
		done += len(later)
		c.mu.Lock()
	}
	if c.begun != begun || c.all == nil { // the incarnation has ended meanwhile
		c.mu.Unlock()
		return client.Close()
	}
	c.all[at] = &joined{cluster: client}
	c.mu.Unlock()
	return nil
}

// registered marks the clients as ready whose addresses the group's store has for this gateway.
func (c *clients) registered(addresses []string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, client := range c.all {
		client.ready = client.ready || !slices.ContainsFunc(client.Addresses(), func(a string) bool { return !slices.Contains(addresses, a) })
	}
}

// nobody is an address that no client has: the broadcast address.
const nobody = "255.255.255.255:0/1"

// try makes each client that has not done so yet fence the address nobody for a second, so that a gateway
// without the permission to fence notices that before another one fails.
func (c *clients) try(ctx context.Context) error {
	c.mu.Lock()
	var all []*joined
	for _, client := range c.all {
		if !client.tried {
			all = append(all, client)
		}
	}
	c.mu.Unlock()
	var errs []error
	for _, client := range all {
		if err := client.Fence(ctx, []string{nobody}, time.Second); err != nil {
			errs = append(errs, err)
			continue
		}
		c.mu.Lock()
		client.tried = true
		c.mu.Unlock()
	}
	return errors.Join(errs...)
}

// started returns the number of calls of connect, and whether the group's store has the addresses of all clients.
func (c *clients) started() (begun int, registered bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.begun, !c.isUnready()
}
