package gateway

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/nvmeof-go/nvmeof/backend/rbd"
	"github.com/nvmeof-go/nvmeof/capsule"
	"github.com/nvmeof-go/nvmeof/nvmeof/config"
	"github.com/nvmeof-go/nvmeof/nvmeof/target"
)

// heldTime is how long the gateway waits for the result of a probe for held writes before it reports that images do not
// answer. A write that is held takes a second of that.
const heldTime = 2 * time.Second

// A heldWrites finds out whether the images that do not answer wait for pools that execute no writes: if a pool is full,
// or writes are paused, Ceph's library holds the writes of each client, for however long, and reports no error. Any other
// gateway would wait as well, so that such an image is no reason to move its group.
type heldWrites struct {
	ask func(context.Context) error // probes the pools of images that do not answer: nil if all of these wait for that

	asked chan error // has the result of the probe under way; nil: none is
	at    time.Time  // of the last result
	held  bool       // that result
}

// now reports whether all images that do not answer wait for such pools, by a probe that is at most provenFor old. It
// takes at most heldTime. Until there is a result the answer is no.
func (h *heldWrites) now(ctx context.Context) bool {
	old := time.Since(h.at) >= provenFor
	if h.asked == nil && !old {
		return h.held
	}
	err, ended := awaitProbe(ctx, &h.asked, h.ask, heldTime)
	if ended {
		h.at = time.Now()
	}
	h.held = ended && err == nil
	return h.held
}

// forget discards results, since no image is silent any more. A probe under way ends by itself.
func (h *heldWrites) forget() { h.asked, h.at, h.held = nil, time.Time{}, false }

// holding returns nil if for each image that does not answer a pool holds writes, while all of the pool answers. said is
// called with the name of each such pool.
func (c *clients) holding(ctx context.Context, silent []*config.RBD, said func(pool string)) error {
	type of struct {
		at    rbd.ClientConfig
		pools []string
	}
	var all []of
	for _, n := range silent {
		x := of{clusterOf(n), c.pools.of(n)}
		if !slices.ContainsFunc(all, func(y of) bool { return x.at == y.at && slices.Equal(x.pools, y.pools) }) {
			all = append(all, x)
		}
	}
	if len(all) == 0 {
		return errors.New("it is not known which images do not answer")
	}
	var wait sync.WaitGroup
	errs, pools := make([]error, len(all)), make([]string, len(all))
	for i, x := range all {
		client, err := c.at(x.at)
		if err != nil {
			return err
		}
		wait.Go(func() { pools[i], errs[i] = client.Holding(ctx, x.pools...) }) // ends with ctx
	}
	wait.Wait()
	for i, x := range all {
		switch {
		case errs[i] != nil:
			return errs[i]
		case pools[i] == "":
			return fmt.Errorf("pools %q answer, and execute writes", x.pools)
		}
	}
	for _, pool := range pools {
		said(pool)
	}
	return nil
}

// silentImages returns the images that are served and do not answer: none if one of them is not in the configuration any
// more.
func silentImages(m *target.Measures, served func(capsule.ANAGroup) bool, doc *config.Document) (all []*config.RBD) {
	for i := range m.Subsystems {
		x := &m.Subsystems[i]
		for j := range x.Namespaces {
			if n := &x.Namespaces[j]; isSilentImage(n, served) {
				found := imageOf(doc, x, n)
				if found == nil {
					return nil
				}
				all = append(all, found)
			}
		}
	}
	return all
}

// imageOf returns the image of a namespace, nil if the configuration has none any more.
func imageOf(doc *config.Document, of *target.SubsystemMeasures, m *target.NamespaceMeasures) *config.RBD {
	for _, s := range doc.Subsystems {
		if s.NQN != of.NQN {
			continue
		}
		for _, n := range s.Namespaces {
			if n.NSID == int(m.NSID) {
				return n.RBD
			}
		}
	}
	return nil
}
