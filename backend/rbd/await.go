package rbd

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/nvmeof-go/nvmeof/backend"
)

// AwaitFence is for a client that begins to serve images whose previous owner was fenced, by any client. After it has
// returned nil, no client that was fenced before the call changes what this client's stores have read or written. In
// the given pools (see [Store.Pools]) such clients change nothing at all.
//
// The monitors know of a fence at once; a placement group knows when its OSD has the map with the fence. OSDs get maps
// from each other, and from clients whose operations carry a newer map: such an operation waits for that map. So
// AwaitFence waits for the newest map and has each placement group of the pools execute an operation, which lists at
// most one object. Without it a fenced client can still write to a placement group in which this client has not done
// anything yet.
//
// AwaitFence takes as long as the slowest OSD. It waits for an OSD that hangs until the cluster has marked it down
// (osd_heartbeat_grace, 20 s) and another OSD has taken over its placement groups. If the map is still that of an
// earlier call, no placement group is asked again, and concurrent calls share their requests. If the context ends, the
// requests continue, at most one set per pool.
func (c *Client) AwaitFence(ctx context.Context, pools ...string) error {
	if len(pools) == 0 {
		return c.ask(ctx, c.conn.AwaitMap)
	}
	for _, name := range pools {
		if err := c.awaitPool(ctx, name); err != nil {
			return fmt.Errorf("pool %s: cannot confirm that all of its OSDs refuse fenced clients: %w", name, err)
		}
	}
	return nil
}

// Reach returns when each placement group of the pools has executed an operation of the client, which lists at most one
// object. The client then has reached the OSDs that currently serve them. Calls for the same pool, including those of
// AwaitFence, wait for each other. If the context ends, the request continues.
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

// holdTime is how long [Client.Holding] waits for a write.
const holdTime = time.Second

// Holding returns the first of the pools for which the cluster makes each client hold its writes, since the pool is full
// or writes are paused: the client's write is not executed within a second, although after that each placement group of
// the pool answers, as for [Client.Reach]. Without such a pool the result is empty. It is an error if a placement group
// does not answer. The write changes nothing, and is withdrawn if it is not executed.
func (c *Client) Holding(ctx context.Context, pools ...string) (string, error) {
	for _, name := range pools {
		var holds bool
		if err := c.ask(ctx, func() (err error) {
			pool, namespace, _ := strings.Cut(name, "/")
			holds, err = c.conn.holds(pool, namespace, holdTime)
			return err
		}); err != nil {
			return "", fmt.Errorf("pool %s: %w", name, err)
		}
		if !holds {
			continue
		}
		if err := c.Reach(ctx, name); err != nil {
			return "", err
		}
		return name, nil
	}
	return "", nil
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

// take waits for the turn of the caller.
func (p *pool) take(ctx context.Context) error {
	select {
	case p.turn <- struct{}{}:
		return nil
	case <-ctx.Done():
		return fmt.Errorf("its placement groups do not answer: %w: see ceph -s", ctx.Err())
	}
}

// askInTurn is ask for the owner of the pool's turn. The turn ends when f returns.
func (c *Client) askInTurn(ctx context.Context, p *pool, f func() error) error {
	err := c.ask(ctx, func() error {
		defer func() { <-p.turn }()
		return f()
	})
	if errors.Is(err, backend.ErrClosed) { // f was not called
		<-p.turn
	}
	return err
}

// await asks the cluster. The caller must have the turn.
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
