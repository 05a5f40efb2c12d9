package rbd

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/nvmeof-go/nvmeof/backend"
)

// FenceTime is the default duration of a fence of [Client.Fence].
const FenceTime = time.Hour

// A ClientConfig selects a cluster and a user, like the fields of the same name in [Config].
type ClientConfig struct{ Conf, ID string }

// A Client is a client of a cluster that several stores can share ([Config.Client]). The cluster identifies it by its
// addresses. Any goroutine may call its methods. They return when their context ends, but the cluster may execute what
// they requested later.
type Client struct {
	conn      connection
	addresses []string
	cluster   string
	closeTime time.Duration
	fences    atomic.Uint64 // number of fences that the cluster has set for this client
	waits     atomic.Uint64 // calls of AwaitFence for a pool

	mu     sync.Mutex // guards the fields below
	closed bool
	calls  sync.WaitGroup // outstanding calls of the connection; none is added once closed
	pools  map[string]*pool
	fenced map[string]time.Time // addresses, and until when they are fenced
}

// A pool is a client's state for one pool.
type pool struct {
	turn   chan struct{} // has an element while the cluster is asked; its owner has the fields below
	epoch  uint64        // of a map that all placement groups have
	fences uint64        // number of the client's fences before they got that map
	known  uint64        // the last call of AwaitFence that was made before the epoch was requested
}

// A connection is what a client needs from the library. Its methods wait for the cluster.
type connection interface {
	Addresses() (string, error)
	FSID() (string, error)
	Block(address string, most time.Duration) error
	Unblock(address string) error
	blocks() (map[string]string, error)
	AwaitMap() error
	// Epoch returns the epoch of the newest map.
	Epoch() (uint64, error)
	// visit returns when all placement groups of a pool have the client's map.
	visit(pool, namespace string) error
	// holds reports whether a write to a pool is not executed within a time.
	holds(pool, namespace string, most time.Duration) (bool, error)
	Close()
}

// Connect connects a client.
func Connect(cfg ClientConfig) (*Client, error) {
	check := Config{Conf: cfg.Conf, ID: cfg.ID}
	if err := check.check(&Name{}); err != nil {
		return nil, err
	}
	conn, err := dialClient(cfg)
	if err != nil {
		return nil, err
	}
	return newClient(conn)
}

func newClient(conn connection) (*Client, error) {
	text, err := conn.Addresses()
	var cluster string
	if err == nil {
		cluster, err = conn.FSID()
	}
	if err != nil {
		conn.Close()
		return nil, err
	}
	return &Client{conn: conn, addresses: parseAddresses(text), cluster: cluster, closeTime: CloseTime, pools: map[string]*pool{}, fenced: map[string]time.Time{}}, nil
}

// Cluster returns the identifier of the cluster.
func (c *Client) Cluster() string { return c.cluster }

// parseAddresses splits the library's text, which is one address, or several in brackets.
func parseAddresses(text string) []string {
	if rest, ok := strings.CutPrefix(text, "["); ok && strings.HasPrefix(rest, "v") { // an IPv6 address begins with a bracket, too
		text = strings.TrimSuffix(rest, "]")
	}
	all := strings.Split(text, ",")
	for i := range all {
		all[i] = plain(all[i])
	}
	return all
}

// plain returns an address without the protocol version, which the blocklist does not contain.
func plain(address string) string {
	for _, version := range []string{"v1:", "v2:", "any:"} {
		address = strings.TrimPrefix(address, version)
	}
	return address
}

// Addresses returns the client's addresses, each with a number that no other client has. Publish them before the first
// request of a store: a client that takes over an image fences them.
func (c *Client) Addresses() []string { return slices.Clone(c.addresses) }

// Fence makes the cluster refuse requests from the addresses of other clients for a time; 0 selects [FenceTime].
// Requests that they have sent and that the cluster has not begun are refused too. After Fence has returned nil, the
// fenced clients change nothing in a placement group that has since executed a request of this client. Other placement
// groups may not know of the fence yet: see [Client.AwaitFence]. Fencing an address again restarts its time; a client
// that is not proven to have ended must stay fenced.
func (c *Client) Fence(ctx context.Context, addresses []string, most time.Duration) error {
	if most == 0 {
		most = FenceTime
	}
	switch {
	case len(addresses) == 0:
		return errors.New("fence: no client address is given: a client whose address is not known cannot be fenced")
	case most < time.Second:
		return fmt.Errorf("fence duration %v: want at least one second", most)
	}
	for _, a := range addresses {
		if slices.Contains(c.addresses, plain(a)) {
			return fmt.Errorf("fence %s: this is the address of this client itself", a)
		}
	}
	until := time.Now().Add(most)
	return c.ask(ctx, func() error {
		for _, a := range addresses {
			if err := c.conn.Block(plain(a), most); err != nil {
				return err
			}
		}
		c.fences.Add(1)
		if err := c.conn.AwaitMap(); err != nil {
			return err
		}
		c.mu.Lock()
		defer c.mu.Unlock()
		for _, a := range addresses {
			c.fenced[plain(a)] = until
		}
		return nil
	})
}

// hasFenced reports whether the client has fenced an address and the fence lasts for at least fenceRest.
func (c *Client) hasFenced(address string) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	maps.DeleteFunc(c.fenced, func(_ string, until time.Time) bool { return time.Until(until) < 0 })
	return time.Until(c.fenced[address]) > fenceRest
}

// fenceRest is the minimum remaining time of a fence that other actions rely on.
const fenceRest = 10 * time.Second

// Fenced returns until when addresses are fenced. Addresses that are not fenced are missing from the map.
func (c *Client) Fenced(ctx context.Context, addresses []string) (map[string]time.Time, error) {
	var all map[string]string
	err := c.ask(ctx, func() (err error) {
		all, err = c.conn.blocks()
		return err
	})
	if err != nil {
		return nil, err
	}
	found := make(map[string]time.Time)
	for address, until := range all {
		for _, a := range addresses {
			if plain(a) != plain(address) {
				continue
			}
			if found[a], err = time.Parse("2006-01-02T15:04:05.999999999-0700", until); err != nil {
				return nil, fmt.Errorf("fence of %s: %w", a, err)
			}
		}
	}
	return found, nil
}

// Unfence ends the fences of addresses. Use it only for addresses whose process is proven to have ended.
func (c *Client) Unfence(ctx context.Context, addresses []string) error {
	return c.ask(ctx, func() error {
		var errs []error
		c.mu.Lock()
		for _, a := range addresses {
			delete(c.fenced, plain(a))
		}
		c.mu.Unlock()
		for _, a := range addresses {
			errs = append(errs, c.conn.Unblock(plain(a)))
		}
		return errors.Join(errs...)
	})
}

// ask calls f and returns when f returns or the context ends.
func (c *Client) ask(ctx context.Context, f func() error) error {
	if !c.enter() {
		return backend.ErrClosed
	}
	ended := make(chan error, 1)
	go func() { // ends when the cluster answers
		defer c.calls.Done()
		ended <- f()
	}()
	select {
	case err := <-ended:
		return err
	case <-ctx.Done():
		return fmt.Errorf("the cluster does not answer: %w", ctx.Err())
	}
}

func (c *Client) enter() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	if !c.closed {
		c.calls.Add(1)
	}
	return !c.closed
}

// Close ends the client. Its stores must be closed. If the cluster does not answer, Close fails with a [HungError], and
// the client ends when the cluster answers.
func (c *Client) Close() error {
	c.mu.Lock()
	closed := c.closed
	c.closed = true
	c.mu.Unlock()
	if closed {
		return nil
	}
	ended := make(chan struct{})
	go func() { // ends when the cluster answers
		c.calls.Wait()
		c.conn.Close()
		close(ended)
	}()
	timer := time.NewTimer(c.closeTime)
	defer timer.Stop()
	select {
	case <-ended:
		return nil
	case <-timer.C:
		return &HungError{"the client", c.closeTime}
	}
}
