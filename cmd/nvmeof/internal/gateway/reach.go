package gateway

import (
	"context"
	"fmt"
	"time"

	"github.com/nvmeof-go/nvmeof/internal/group"
	"github.com/nvmeof-go/nvmeof/nvmeof/config"
)

const (
	// reachTime is how long the placement groups of the images have to answer one that is to prove that it
	// reaches them; until then others are to serve.
	reachTime = time.Second
	// provenFor is how long that it did is good for, while a gateway does not.
	provenFor = 5 * time.Second
)

// A reach is whether the gateway reaches the storage of the images, so far as there is reason to ask: one
// that it serves does not answer, or another gateway has said that it cannot serve. Where the storage does
// not answer at all no gateway reaches it, and each stays with what it serves.
type reach struct {
	ask func(context.Context) error // asks the storage; it may take as long as that

	lost   bool       // it does not, and has not proved since that it does
	asked  chan error // has the answer of what is being asked; nil: nothing is
	proven time.Time  // when it did
}

// now reports whether the gateway reaches the images, when one of them is silent, or another gateway stuck.
// It takes reachTime at most.
func (r *reach) now(ctx context.Context, silent, stuck bool) bool {
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

// answers reports whether the storage answers in time. What takes longer goes on, and is not begun anew.
func (r *reach) answers(ctx context.Context) bool {
	if r.asked == nil {
		asked := make(chan error, 1)
		r.asked = asked
		go func() { // ends when the storage has answered, or after awaitTime
			ctx, cancel := context.WithTimeout(ctx, awaitTime)
			defer cancel()
			asked <- r.ask(ctx)
		}()
	}
	timer := time.NewTimer(reachTime)
	defer timer.Stop()
	select {
	case err := <-r.asked:
		r.asked = nil
		return err == nil
	case <-timer.C:
		return false
	case <-ctx.Done():
		return false
	}
}

// reach returns when the placement groups of all images of a configuration have answered.
func (c *clients) reach(ctx context.Context, doc *config.Document) error {
	for at, pools := range poolsOf(doc, 0) {
		c.mu.Lock()
		client := c.all[at]
		c.mu.Unlock()
		if client == nil {
			return fmt.Errorf("the gateway is no client of cluster %q", at.Conf)
		}
		if err := client.Reach(ctx, pools...); err != nil {
			return err
		}
	}
	return nil
}

// anyStuck reports whether a gateway other than this one is there, and cannot serve.
func anyStuck(s *group.Status, own string) bool {
	for i := range s.Gateways {
		if x := &s.Gateways[i]; x.Alive && x.Beat.Stuck && x.Member.Name != own {
			return true
		}
	}
	return false
}
