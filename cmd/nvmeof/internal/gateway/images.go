package gateway

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"golang.org/x/sys/unix"

	"github.com/nvmeof-go/nvmeof/backend"
	"github.com/nvmeof-go/nvmeof/backend/rbd"
	"github.com/nvmeof-go/nvmeof/internal/group"
	"github.com/nvmeof-go/nvmeof/nvmeof/config"
)

// A cluster is a client of a Ceph cluster. [rbd.Client] is one.
type cluster interface {
	pooled
	Addresses() []string
	Fence(ctx context.Context, addresses []string, most time.Duration) error
	Reach(ctx context.Context, pools ...string) error
	Holding(ctx context.Context, pools ...string) (string, error)
	Close() error
}

// A joined is a cluster's client with its state.
type joined struct {
	cluster
	ready bool // the group's store has its addresses, so that it can be fenced: it may be used
	tried bool // it has the permission to fence: see try
}

// Clients are the clients of the clusters whose images the gateway serves. All images of a cluster share
// one client, by which other gateways fence this one.
type clients struct {
	dial        func(rbd.ClientConfig) (cluster, error)  // nil: dialCluster
	preopenWith func(string, rbd.Config) (opener, error) // nil: preopen

	mu     sync.Mutex
	all    map[rbd.ClientConfig]*joined // nil: the incarnation has not begun, or has ended
	of     group.Incarnation            // that the clients belong to
	lost   func()                       // called when a cluster refuses the current clients; it does not block
	begun  int                          // number of calls of connect
	fenced []string                     // addresses that the current clients have to fence
	opened map[imageKey]*preopened      // images that were opened ahead
	pools  imagePools
}

func dialCluster(at rbd.ClientConfig) (cluster, error) {
	c, err := rbd.Connect(at)
	if err != nil {
		return nil, err // not a cluster that holds a nil pointer
	}
	return c, nil
}

func (c *clients) connectTo(at rbd.ClientConfig) (cluster, error) {
	dial := c.dial
	if dial == nil {
		dial = dialCluster
	}
	client, err := dial(at)
	if err != nil {
		return nil, fmt.Errorf("cluster %s: %w", cmp.Or(at.Conf, "with Ceph's default configuration"), err)
	}
	return client, nil
}

func clusterOf(n *config.RBD) rbd.ClientConfig {
	return rbd.ClientConfig{Conf: string(n.Conf), ID: n.ID}
}

// connect begins an incarnation. If the group's store is in a cluster, it makes the client of that cluster, and returns
// the client's addresses. extend makes the clients of other clusters. lost is called once if a cluster refuses one of
// the clients. If a cluster does not answer, connect takes as long as Ceph waits for it, without holding the lock.
func (c *clients) connect(doc *config.Document, inc group.Incarnation, lost func()) (addresses []string, err error) {
	all := map[rbd.ClientConfig]*joined{}
	if at, err := config.ParseGroupStore(doc.Group.Store); err == nil && at.Kind == "rados" {
		of := rbd.ClientConfig{Conf: string(doc.Group.Conf), ID: doc.Group.ID} // the images are likely there, too
		client, err := c.connectTo(of)
		if err != nil {
			return nil, err
		}
		all[of], addresses = &joined{cluster: client, ready: true}, client.Addresses()
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.all, c.opened, c.lost, c.fenced, c.of = all, map[imageKey]*preopened{}, sync.OnceFunc(lost), nil, inc
	c.begun++
	return addresses, nil
}

// imageConfig returns the configuration for opening an image.
func imageConfig(n *config.RBD, blockSize int, client *rbd.Client, lost func()) rbd.Config {
	return rbd.Config{Client: client, Lost: lost, Size: int64(n.Size), BlockSize: cmp.Or(blockSize, 512), ReadOnly: n.ReadOnly}
}

// openImage opens an image with the client of its cluster, and awaits fences in its pools: the previous owner
// of an image that is added to a group while the group is served may have been fenced, too.
func (c *clients) openImage(n *config.RBD, blockSize int) (backend.Store, error) {
	c.mu.Lock()
	of, lost := c.all[clusterOf(n)], c.lost
	if of == nil || !of.ready {
		c.mu.Unlock()
		return nil, errNewCluster
	}
	c.mu.Unlock()
	client, _ := of.cluster.(*rbd.Client)
	var s *rbd.Store
	var err error
	if a := c.takePreopened(imageKey{*n, blockSize}); a != nil {
		s, err = a.Open()
	} else {
		s, err = rbd.Open(n.Image, imageConfig(n, blockSize, client, lost))
	}
	if errors.Is(err, unix.ESHUTDOWN) { // the client was refused before its first request
		lost()
	}
	if err != nil {
		return nil, err // not a Store that holds a nil pointer
	}
	c.pools.learn(n, s.Pools())
	ctx, cancel := context.WithTimeout(context.Background(), awaitTime)
	defer cancel()
	if err := awaitFence(ctx, client, s.Pools(), lost); err != nil {
		return nil, errors.Join(err, s.Close())
	}
	return s, nil
}

// errNewCluster says that the gateway has no client yet of an image's cluster, or none that others can
// fence.
var errNewCluster = errors.New("the gateway is not connected to this image's Ceph cluster yet (id and conf of the image): this takes a second; if it fails, the log has the reason")

// fence makes all clusters refuse the clients with the given addresses.
func (c *clients) fence(ctx context.Context, addresses []string) error {
	c.mu.Lock()
	for _, a := range addresses { // fences are renewed with the same addresses
		if !slices.Contains(c.fenced, a) {
			c.fenced = append(c.fenced, a) // clients that are made later fence them too: see add
		}
	}
	all := make([]cluster, 0, len(c.all))
	for _, client := range c.all {
		all = append(all, client.cluster)
	}
	c.mu.Unlock()
	if len(all) == 0 {
		return errors.New("this gateway is not connected to a Ceph cluster and so cannot fence another gateway")
	}
	var errs []error
	for _, client := range all {
		errs = append(errs, client.Fence(ctx, addresses, 0))
	}
	return errors.Join(errs...)
}

// close closes the clients. Their images were closed before. If a cluster does not answer, close takes [rbd.CloseTime],
// without holding the lock.
func (c *clients) close() {
	c.mu.Lock()
	opened, all := c.opened, c.all
	c.opened, c.all = nil, nil
	c.mu.Unlock()
	for _, a := range opened { // a client ends after its images
		go a.end() // ends when the cluster has answered
	}
	for _, client := range all {
		_ = client.Close() // it is not used any more
	}
}
