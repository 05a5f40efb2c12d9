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

// extend makes clients of the clusters that a document's images are in, where there are none, and
// returns the addresses of all clients, and of whom these are; none if all are registered. The images are opened once
// registered was told that others find these addresses.
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

// missing are the clusters without a client.
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

// add makes one client. What the others have fenced it fences too, before it is used: the gateway that
// was fenced may have been a client of its cluster.
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

// registered says which addresses the group's store has of this gateway.
func (c *clients) registered(addresses []string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, client := range c.all {
		client.ready = client.ready || !slices.ContainsFunc(client.Addresses(), func(a string) bool { return !slices.Contains(addresses, a) })
	}
}

// nobody is an address that no client has, since it is that of a broadcast.
const nobody = "255.255.255.255:0/1"

// try has each client fence an address that nobody has, for a second, unless it has done that before: who
// may not fence had better know before a gateway dies.
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

// started is how often clients were made for an incarnation, and whether the group's store has the addresses of all.
func (c *clients) started() (begun int, registered bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.begun, !c.isUnready()
}
