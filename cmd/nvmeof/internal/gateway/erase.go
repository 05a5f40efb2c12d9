package gateway

import (
	"context"
	"errors"
	"iter"
	"time"

	"golang.org/x/sys/unix"

	"github.com/nvmeof-go/nvmeof/backend/rbd"
	"github.com/nvmeof-go/nvmeof/nvmeof/config"
	"github.com/nvmeof-go/nvmeof/nvmeof/control"
)

// erase erases the namespaces that the group's document lists for that, in the ANA groups that this gateway
// serves. It does so whenever the document changes, and periodically, to retry and for groups that have come.
func (g *Gateway) erase(ctx context.Context) {
	every := time.NewTicker(againTime)
	defer every.Stop()
	for {
		control.EraseListed(ctx, g.manager)
		select {
		case <-g.erasing:
		case <-every.C:
		case <-ctx.Done():
			return
		}
	}
}

// removeImage removes an image with the gateway's own client of its cluster, so that the cluster refuses it if
// another gateway has taken the ANA group over.
func (c *clients) removeImage(n *config.RBD) error {
	c.mu.Lock()
	of, lost := c.all[clusterOf(n)], c.lost
	c.mu.Unlock()
	if of == nil || !of.ready {
		return errNewCluster
	}
	client, _ := of.cluster.(*rbd.Client)
	err := rbd.Remove(n.Image, rbd.Config{Client: client})
	if errors.Is(err, unix.ESHUTDOWN) {
		lost()
	}
	return err
}

// withImages returns the namespaces of a document that are images, including those that are being erased.
func withImages(doc *config.Document) iter.Seq[*config.Namespace] {
	return func(yield func(*config.Namespace) bool) {
		for _, s := range doc.Subsystems {
			for _, n := range s.Namespaces {
				if n.RBD != nil && !yield(n) {
					return
				}
			}
		}
		for _, e := range doc.Erasing {
			if e.Namespace.RBD != nil && !yield(e.Namespace) {
				return
			}
		}
	}
}
