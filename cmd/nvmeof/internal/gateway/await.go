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

// awaitTime is the time limit for placement groups to answer. After that the group stays inaccessible, or
// the image closed, and is tried again, until the cluster has another OSD for them.
const awaitTime = 10 * time.Second

// A pooled is the part of [rbd.Client] that awaits fences.
type pooled interface {
	AwaitFence(ctx context.Context, pools ...string) error
}

// await waits until clients that were fenced before can no longer change the pools that have the images
// of an ANA group. Separate data pools are awaited when the images are opened, since their names are in
// the images.
func (c *clients) await(ctx context.Context, doc *config.Document, id group.ID) error {
	ctx, cancel := context.WithTimeout(ctx, awaitTime)
	defer cancel()
	for at, pools := range poolsOf(doc, id) {
		c.mu.Lock()
		client, lost := c.all[at], c.lost
		c.mu.Unlock()
		if client == nil {
			continue // no image of the cluster can be opened: see errNewCluster
		}
		if err := awaitFence(ctx, client, pools, lost); err != nil {
			return fmt.Errorf("ANA group %d is not served yet: %w", id, err)
		}
	}
	return nil
}

// awaitFence awaits fences. It calls lost if the cluster refuses the client itself.
func awaitFence(ctx context.Context, client pooled, pools []string, lost func()) error {
	err := client.AwaitFence(ctx, pools...)
	if errors.Is(err, unix.ESHUTDOWN) {
		lost()
	}
	return err
}

// poolsOf returns the pools of the images of an ANA group, by cluster.
func poolsOf(doc *config.Document, id group.ID) map[rbd.ClientConfig][]string {
	all := map[rbd.ClientConfig][]string{}
	for n := range withImages(doc) {
		if group.ID(cmp.Or(n.ANAGroup, 1)) != id {
			continue
		}
		name, err := rbd.ParseName(n.RBD.Image)
		if err != nil {
			continue // it cannot be opened either
		}
		if at, pool := clusterOf(n.RBD), name.In(); !slices.Contains(all[at], pool) {
			all[at] = append(all[at], pool)
		}
	}
	return all
}
