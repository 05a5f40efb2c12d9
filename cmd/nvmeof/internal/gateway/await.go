package gateway

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"golang.org/x/sys/unix"

	"github.com/nvmeof-go/nvmeof/backend/rbd"
	"github.com/nvmeof-go/nvmeof/internal/group"
	"github.com/nvmeof-go/nvmeof/nvmeof/config"
)

// awaitTime is how long the placement groups of the images are waited for. Then the group stays
// inaccessible, or the image closed, and is tried again, until the cluster has another OSD for them.
const awaitTime = 10 * time.Second

// A pooled is a client of a cluster as far as its fences are awaited, which [rbd.Client] does.
type pooled interface {
	AwaitFence(ctx context.Context, pools ...string) error
}

// await returns when nothing of clients that were fenced before changes the pools that have the
// images of an ANA group. The pools of their data, where those are others, are awaited as the images
// are opened: their names are in the images.
func (c *clients) await(ctx context.Context, doc *config.Document, id group.ID) error {
	ctx, cancel := context.WithTimeout(ctx, awaitTime)
	defer cancel()
	for at, pools := range poolsOf(doc, id) {
		c.mu.Lock()
		client, lost := c.all[at], c.lost
		c.mu.Unlock()
		if client == nil {
			continue // no image of the cluster is opened: see errNewCluster
		}
		if err := awaitFence(ctx, client, pools, lost); err != nil {
			return fmt.Errorf("ANA group %d is not served yet: %w", id, err)
		}
	}
	return nil
}

// awaitFence awaits fences, and calls lost where the cluster refuses the client itself.
func awaitFence(ctx context.Context, client pooled, pools []string, lost func()) error {
	err := client.AwaitFence(ctx, pools...)
	if errors.Is(err, unix.ESHUTDOWN) {
		lost()
	}
	return err
}

// poolsOf are the pools that the images of an ANA group are in, in each cluster; of group 0: all images.
func poolsOf(doc *config.Document, id group.ID) map[rbd.ClientConfig][]string {
	all := map[rbd.ClientConfig][]string{}
	for n := range withImages(doc) {
		if id != 0 && group.ID(cmp.Or(n.ANAGroup, 1)) != id {
			continue
		}
		name, err := rbd.ParseName(n.RBD.Image)
		if err != nil {
			continue // it is not opened either
		}
		if at, pool := clusterOf(n.RBD), name.In(); !slices.Contains(all[at], pool) {
			all[at] = append(all[at], pool)
		}
	}
	return all
}
