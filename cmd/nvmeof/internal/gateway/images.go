package gateway

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"sync"

	"golang.org/x/sys/unix"

	"github.com/nvmeof-go/nvmeof/backend"
	"github.com/nvmeof-go/nvmeof/backend/rbd"
	"github.com/nvmeof-go/nvmeof/nvmeof/config"
)

// Clients are those of the clusters whose images the gateway serves: all images of a cluster have
// one, which others fence.
type clients struct {
	mu   sync.Mutex
	all  map[rbd.ClientConfig]*rbd.Client
	lost func() // what to do when a cluster refuses the clients of now; it does not wait
}

func clusterOf(n *config.RBD) rbd.ClientConfig {
	return rbd.ClientConfig{Conf: string(n.Conf), ID: n.ID}
}

// connect makes the clients of a document's images, and returns their addresses. Once is lost called
// if one of their clusters refuses them.
func (c *clients) connect(doc *config.Document, lost func()) (addresses []string, err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.all, c.lost = map[rbd.ClientConfig]*rbd.Client{}, sync.OnceFunc(lost)
	defer func() {
		if err != nil {
			c.closeAll()
		}
	}()
	want := map[rbd.ClientConfig]bool{}
	if at, err := config.ParseGroupStore(doc.Group.Store); err == nil && at.Kind == "rados" {
		want[rbd.ClientConfig{Conf: string(doc.Group.Conf), ID: doc.Group.ID}] = true // the first image is likely there
	}
	for _, s := range doc.Subsystems {
		for _, n := range s.Namespaces {
			if n.RBD != nil {
				want[clusterOf(n.RBD)] = true
			}
		}
	}
	for at := range want {
		client, err := rbd.Connect(at)
		if err != nil {
			return nil, fmt.Errorf("cluster %s: %w", cmp.Or(at.Conf, "of Ceph's default configuration"), err)
		}
		c.all[at] = client
		addresses = append(addresses, client.Addresses()...)
	}
	return addresses, nil
}

// open opens an image by the client of its cluster, and awaits fences in the pools that have it: also
// an image that comes to a group which is served may be one whose owner before was fenced.
func (c *clients) open(n *config.RBD, blockSize int) (backend.Store, error) {
	c.mu.Lock()
	client, lost := c.all[clusterOf(n)], c.lost
	c.mu.Unlock()
	if client == nil {
		return nil, errNewCluster
	}
	s, err := rbd.Open(n.Image, rbd.Config{Client: client, Lost: lost, Size: int64(n.Size), BlockSize: cmp.Or(blockSize, 512), ReadOnly: n.ReadOnly})
	if errors.Is(err, unix.ESHUTDOWN) { // the client was refused before its first request
		lost()
	}
	if err != nil {
		return nil, err // and not a store that is nil
	}
	ctx, cancel := context.WithTimeout(context.Background(), awaitTime)
	defer cancel()
	if err := awaitFence(ctx, client, s.Pools(), lost); err != nil {
		return nil, errors.Join(err, s.Close())
	}
	return s, nil
}

// errNewCluster is that an image is in a cluster of which the gateway is no client yet.
var errNewCluster = errors.New("the gateway is no client of this image's cluster, since its first image came after the start: drain the gateway, and start it again")

// fence has the clusters refuse other clients.
func (c *clients) fence(ctx context.Context, addresses []string) error {
	c.mu.Lock()
	all := make([]*rbd.Client, 0, len(c.all))
	for _, client := range c.all {
		all = append(all, client)
	}
	c.mu.Unlock()
	if len(all) == 0 {
		return errors.New("this gateway is the client of no cluster, and cannot fence another")
	}
	var errs []error
	for _, client := range all {
		errs = append(errs, client.Fence(ctx, addresses, 0))
	}
	return errors.Join(errs...)
}

// close closes the clients. Their images were closed before.
func (c *clients) close() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.closeAll()
}

// closeAll is close with mu held.
func (c *clients) closeAll() {
	for _, client := range c.all {
		_ = client.Close() // nobody uses it
	}
	c.all = nil
}
