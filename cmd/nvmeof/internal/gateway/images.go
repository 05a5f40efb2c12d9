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

// A cluster is a client of one, which [rbd.Client] is.
type cluster interface {
	pooled
	Addresses() []string
	Fence(ctx context.Context, addresses []string, most time.Duration) error
	Reach(ctx context.Context, pools ...string) error
	Close() error
}

// A joined is a client of a cluster.
type joined struct {
	cluster
	ready bool // the group's store has its addresses: it can be fenced, and may be used
	tried bool // it may fence: see try
}

// Clients are those of the clusters whose images the gateway serves: all images of a cluster have
// one, which others fence.
type clients struct {
	dial  func(rbd.ClientConfig) (cluster, error)  // nil: dialCluster
	ahead func(string, rbd.Config) (opener, error) // nil: openAhead

	mu     sync.Mutex
	all    map[rbd.ClientConfig]*joined // nil: the incarnation has not begun, or has ended
	of     group.Incarnation            // whose clients they are
	lost   func()                       // what to do when a cluster refuses the clients of now; it does not wait
	begun  int                          // how often connect was called
	fenced []string                     // addresses that the clients of now were to fence
	opened map[imageKey]*ahead          // before their group has come
}

func dialCluster(at rbd.ClientConfig) (cluster, error) {
	c, err := rbd.Connect(at)
	if err != nil {
		return nil, err // and not a client that is nil
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
		return nil, fmt.Errorf("cluster %s: %w", cmp.Or(at.Conf, "of Ceph's default configuration"), err)
	}
	return client, nil
}

func clusterOf(n *config.RBD) rbd.ClientConfig {
	return rbd.ClientConfig{Conf: string(n.Conf), ID: n.ID}
}

// connect makes the client of the cluster that has the group's store, if one has, and returns its
// addresses. Those of other clusters come with extend. Once is lost called if a cluster refuses one of
// them. A cluster that does not answer takes as long as Ceph waits for it, in which nobody else waits.
func (c *clients) connect(doc *config.Document, inc group.Incarnation, lost func()) (addresses []string, err error) {
	all := map[rbd.ClientConfig]*joined{}
	if at, err := config.ParseGroupStore(doc.Group.Store); err == nil && at.Kind == "rados" {
		of := rbd.ClientConfig{Conf: string(doc.Group.Conf), ID: doc.Group.ID} // the first image is likely there
		client, err := c.connectTo(of)
		if err != nil {
			return nil, err
		}
		all[of], addresses = &joined{cluster: client, ready: true}, client.Addresses()
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.all, c.opened, c.lost, c.fenced, c.of = all, map[imageKey]*ahead{}, sync.OnceFunc(lost), nil, inc
	c.begun++
	return addresses, nil
}

// imageConfig is how an image is opened.
func imageConfig(n *config.RBD, blockSize int, client *rbd.Client, lost func()) rbd.Config {
	return rbd.Config{Client: client, Lost: lost, Size: int64(n.Size), BlockSize: cmp.Or(blockSize, 512), ReadOnly: n.ReadOnly}
}

// openImage opens an image by the client of its cluster, and awaits fences in the pools that have it: also
// an image that comes to a group which is served may be one whose owner before was fenced.
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
	if a := c.takeAhead(imageKey{*n, blockSize}); a != nil {
		s, err = a.Open()
	} else {
		s, err = rbd.Open(n.Image, imageConfig(n, blockSize, client, lost))
	}
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

// errNewCluster is that an image is in a cluster of which the gateway is no client yet, or no client
// that others can fence.
var errNewCluster = errors.New("the gateway is not yet a client of this image's cluster, as this image's id and conf have it: that takes a second, or what keeps it from that is in the log")

// fence has the clusters refuse other clients.
func (c *clients) fence(ctx context.Context, addresses []string) error {
	c.mu.Lock()
	for _, a := range addresses { // again and again, while it is not known that a gateway is gone
		if !slices.Contains(c.fenced, a) {
			c.fenced = append(c.fenced, a) // a client that comes later does the same: see extend
		}
	}
	all := make([]cluster, 0, len(c.all))
	for _, client := range c.all {
		all = append(all, client.cluster)
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

// close closes the clients. Their images were closed before. A cluster that does not answer takes [rbd.CloseTime], in
// which nobody else waits.
func (c *clients) close() {
	c.mu.Lock()
	opened, all := c.opened, c.all
	c.opened, c.all = nil, nil
	c.mu.Unlock()
	for _, a := range opened { // their clients end after them
		go a.end() // when the cluster has answered
	}
	for _, client := range all {
		_ = client.Close() // nobody uses it
	}
}
