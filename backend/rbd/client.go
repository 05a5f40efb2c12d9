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

// FenceTime is for how long [Client.Fence] fences by default.
const FenceTime = time.Hour

// A ClientConfig says which cluster a client connects to, and as whom, as [Config] does.
type ClientConfig struct{ Conf, ID string }

// A Client is one of a cluster's, which stores can have in common ([Config.Client]). The cluster
// knows it by its addresses. Its methods may be called from any goroutine; they return when
// their context ends, and what they have asked of the cluster may be done after that.
type Client struct {
	conn      connection
	addresses []string
	cluster   string
	closeTime time.Duration
	fences    atomic.Uint64 // how many it has had the cluster carry out
	waits     atomic.Uint64 // calls of AwaitFence for a pool

	mu     sync.Mutex // guards what follows
	closed bool
	calls  sync.WaitGroup // of the connection; none is added once closed
	pools  map[string]*pool
	fenced map[string]time.Time // addresses, each until when
}

// A pool is what a client knows of one.
type pool struct {
	turn   chan struct{} // has an element while the cluster is asked; its owner has what follows
	epoch  uint64        // of a map that all placement groups have
	fences uint64        // of the client, before they got it
	known  uint64        // the last call of AwaitFence that was made before the epoch was asked for
}

// A connection is what a client needs of the library. Its methods take as long as the cluster
// does.
type connection interface {
	Addresses() (string, error)
	FSID() (string, error)
	Block(address string, most time.Duration) error
	Unblock(address string) error
	blocks() (map[string]string, error)
	AwaitMap() error
	// Epoch is that of the newest map.
	Epoch() (uint64, error)
	// visit returns when all placement groups of a pool have the client's map.
	visit(pool, namespace string) error
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

// Cluster is the identifier of the cluster.
func (c *Client) Cluster() string { return c.cluster }

// parseAddresses splits what the library says, which is an address, or several in brackets.
func parseAddresses(text string) []string {
	if rest, ok := strings.CutPrefix(text, "["); ok && strings.HasPrefix(rest, "v") { // that of IPv6 begins with a bracket, too
		text = strings.TrimSuffix(rest, "]")
	}
	all := strings.Split(text, ",")
	for i := range all {
		all[i] = plain(all[i])
	}
	return all
}

// plain is an address without the version of the protocol, which the blocklist does not have.
func plain(address string) string {
	for _, version := range []string{"v1:", "v2:", "any:"} {
		address = strings.TrimPrefix(address, version)
	}
	return address
}

// Addresses are those of the client, each with a number that no other client has: to be written
// down where others find them before the first request of a store, since who takes
// over an image fences them.
func (c *Client) Addresses() []string { return slices.Clone(c.addresses) }

// Fence has the cluster refuse whatever comes from the addresses of other clients, also what
// they have sent and the cluster has not begun, for a time; 0: [FenceTime]. When it returns without an
// error, nothing is changed by them in a placement group that has then carried out anything of this
// client; the others may not know of it yet: see [Client.AwaitFence]. To fence again what is fenced
// makes the time begin anew: a client that is not proven gone has to stay fenced.
func (c *Client) Fence(ctx context.Context, addresses []string, most time.Duration) error {
	if most == 0 {
		most = FenceTime
	}
	switch {
	case len(addresses) == 0:
		return errors.New("fence: no addresses are given: who is not known by one cannot be fenced")
	case most < time.Second:
		return fmt.Errorf("fence for %v: must be a second at least", most)
	}
	for _, a := range addresses {
		if slices.Contains(c.addresses, plain(a)) {
			return fmt.Errorf("fence %s: that is this client itself", a)
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

// hasFenced reports whether the client has fenced an address, whose fence lasts for a while yet.
func (c *Client) hasFenced(address string) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	maps.DeleteFunc(c.fenced, func(_ string, until time.Time) bool { return time.Until(until) < 0 })
	return time.Until(c.fenced[address]) > fenceRest
}

// fenceRest is what is left at least of a fence on which something is built.
const fenceRest = 10 * time.Second

// Fenced returns until when addresses are fenced. Those that are not are missing.
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

// Unfence ends the fences of addresses, which is for those alone whose process is proven gone.
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

// ask calls f, and returns when that does or the context ends.
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

// Close ends the client, whose stores are closed. Where the cluster does not answer it fails with
// a [HungError], and the client ends when the cluster does.
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
