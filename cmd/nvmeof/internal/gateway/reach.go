package gateway

import (
	"context"
	"fmt"
	"time"

	"github.com/nvmeof-go/nvmeof/backend/rbd"
	"github.com/nvmeof-go/nvmeof/internal/group"
	"github.com/nvmeof-go/nvmeof/nvmeof/config"
)

const (
	// reachTime is the time in which the placement groups of the images have to answer a probe. If they do not,
	// other gateways serve.
	reachTime = time.Second
	// provenFor is how long a successful probe counts while another gateway is stuck.
	provenFor = 5 * time.Second
)

// A reach checks whether the gateway reaches the storage of the images. It probes the storage only if an image that
// is served does not answer, or if another gateway has reported that it cannot serve. If the storage does not answer
// at all, no gateway reaches it, and each keeps its groups.
type reach struct {
	ask  func(context.Context) error // probes the storage, and takes as long as that needs
	held heldWrites

	lost   bool       // the storage was not reached, and no probe has succeeded since
	asked  chan error // has the result of the probe under way; nil: none is
	proven time.Time  // when a probe last succeeded
}

// now reports whether the gateway reaches the images. silent says that an image does not answer, stuck that another
// gateway is stuck. It takes at most reachTime and, while an image is silent, heldTime.
func (r *reach) now(ctx context.Context, silent, stuck bool) bool {
	switch {
	case !silent:
		r.held.forget()
	case r.held.now(ctx):
		silent = false // no gateway reaches more than this one
	}
	r.lost = r.lost || silent
	if !r.lost && !stuck {
		return true
	}
	if time.Since(r.proven) >= provenFor {
		r.lost = true
		if r.answers(ctx) {
			r.proven = time.Now()
		}
	}
	if time.Since(r.proven) < provenFor && !silent {
		r.lost = false
	}
	return !r.lost
}

// answers reports whether a probe of the storage succeeds in time.
func (r *reach) answers(ctx context.Context) bool {
	err, ended := awaitProbe(ctx, &r.asked, r.ask, reachTime)
	return ended && err == nil
}

// awaitProbe begins a probe, unless one is under way, and waits at most the given time for its result. A probe that takes
// longer continues, and the next call waits for it.
func awaitProbe(ctx context.Context, asked *chan error, ask func(context.Context) error, most time.Duration) (err error, ended bool) {
	if *asked == nil {
		result := make(chan error, 1)
		*asked = result
		go func() { // ends when the storage has answered, or after awaitTime
			ctx, cancel := context.WithTimeout(ctx, awaitTime)
			defer cancel()
			result <- ask(ctx)
		}()
	}
	timer := time.NewTimer(most)
	defer timer.Stop()
	select {
	case err := <-*asked:
		*asked = nil
		return err, true
	case <-timer.C:
	case <-ctx.Done():
	}
	return nil, false
}

// reach waits until the placement groups of all images of a configuration have answered, in the pools with their headers and
// in those with their data.
func (c *clients) reach(ctx context.Context, doc *config.Document) error {
	for at, pools := range c.pools.ofAll(doc) {
		client, err := c.at(at)
		if err != nil {
			return err
		}
		if err := client.Reach(ctx, pools...); err != nil {
			return err
		}
	}
	return nil
}

// at returns the client of a cluster.
func (c *clients) at(at rbd.ClientConfig) (cluster, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	client := c.all[at]
	if client == nil {
		return nil, fmt.Errorf("the gateway is not connected to Ceph cluster %q", at.Conf)
	}
	return client, nil
}

// anyStuck reports whether another gateway is alive and stuck.
func anyStuck(s *group.Status, own string) bool {
	for i := range s.Gateways {
		if x := &s.Gateways[i]; x.Alive && x.Beat.Stuck && x.Member.Name != own {
			return true
		}
	}
	return false
}
