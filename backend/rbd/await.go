package rbd

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/nvmeof-go/nvmeof/backend"
)

// AwaitFence is for a client that begins to serve images whose owner before was fenced, by any client.
// When it returns nil, nothing that was fenced before the call changes what this client's stores have
// read or written, and in the pools named (see [Store.Pools]) it changes nothing at all.
//
// The monitors know of a fence at once, a placement group when its OSD has the map that says so. OSDs
// get maps from each other, and from a client whose operation comes with a newer one: the operation
// waits for that map. So AwaitFence waits for the newest map, and has each placement group of the pools
// carry out an operation, which lists one object at most. Without it a client that is fenced can write
// to a placement group in which this client has not done anything yet.
//
// It takes as long as the slowest OSD: one that hangs is waited for until the cluster has marked it
// down (osd_heartbeat_grace, 20 s), and another OSD has its placement groups. Where the map is that of
// an earlier call no placement group is asked again, and calls at the same time share what is asked.
// A call that the context ends leaves that under way, once for a pool.
func (c *Client) AwaitFence(ctx context.Context, pools ...string) error {
	if len(pools) == 0 {
		return c.ask(ctx, c.conn.AwaitMap)
	}
	for _, name := range pools {
		if err := c.awaitPool(ctx, name); err != nil {
			return fmt.Errorf("pool %s: it is not known whether all of it refuses clients that were fenced: %w", name, err)
		}
	}
	return nil
}

// Reach returns when each placement group of the pools has carried out an operation of the client's, which
// lists one object at most: the client reaches the OSDs that have them now. Calls for a pool, and
// those of AwaitFence, wait for each other. A call that the context ends leaves one under way.
func (c *Client) Reach(ctx context.Context, pools ...string) error {
	for _, name := range pools {
		p := c.pool(name)
		err := p.take(ctx)
		if err == nil {
			err = c.askInTurn(ctx, p, func() error {
				pool, namespace, _ := strings.Cut(name, "/")
				return c.conn.visit(pool, namespace)
			})
		}
		if err != nil {
			return fmt.Errorf("pool %s: %w", name, err)
		}
	}
	return nil
}

func (c *Client) awaitPool(ctx context.Context, name string) error {
	p, call := c.pool(name), c.waits.Add(1)
	if err := p.take(ctx); err != nil {
		return err
	}
	if p.known >= call {
		<-p.turn
		return nil
	}
	return c.askInTurn(ctx, p, func() error { return p.await(c.conn, name, c.waits.Load(), c.fences.Load()) })
}

// take waits for the turn.
func (p *pool) take(ctx context.Context) error {
	select {
	case p.turn <- struct{}{}:
		return nil
	case <-ctx.Done():
		return fmt.Errorf("its placement groups do not answer: %w: see ceph -s", ctx.Err())
	}
}

// askInTurn is ask by who has the turn, which ends with f.
func (c *Client) askInTurn(ctx context.Context, p *pool, f func() error) error {
	err := c.ask(ctx, func() error {
		defer func() { <-p.turn }()
		return f()
	})
	if errors.Is(err, backend.ErrClosed) { // nothing was asked
		<-p.turn
	}
	return err
}

// await belongs to who has the turn.
func (p *pool) await(conn connection, name string, calls, fences uint64) error {
	epoch, err := conn.Epoch()
	if err != nil {
		return err
	}
	if epoch != p.epoch || fences != p.fences {
		if err := conn.AwaitMap(); err != nil {
			return err
		}
		pool, namespace, _ := strings.Cut(name, "/")
		if err := conn.visit(pool, namespace); err != nil {
			return err
		}
	}
	p.epoch, p.fences, p.known = epoch, fences, calls
	return nil
}

func (c *Client) pool(name string) *pool {
	c.mu.Lock()
	defer c.mu.Unlock()
	p := c.pools[name]
	if p == nil {
		p = &pool{turn: make(chan struct{}, 1)}
		c.pools[name] = p
	}
	return p
}
