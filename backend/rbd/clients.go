package rbd

import (
	"errors"
	"sync"
)

// Clients are those of clusters that images have in common ([Config.Clients]): one for each
// configuration and user. A client has dozens of threads, and with many clients the cluster's messages
// are as many small ones. A client connects with its first image and ends with its last one. When the
// cluster blocklists it all its images fail, and those that are opened after that get another. The zero
// value is ready. Stores with the same Clients may be used from different goroutines.
type Clients struct {
	connect func(ClientConfig) (*Client, error) // nil: Connect

	mu  sync.Mutex
	all map[ClientConfig]*common // that new images get
}

// A common is a client that images have in common.
type common struct {
	of     *Clients
	at     ClientConfig
	images int // under the mutex of Clients

	ready  chan struct{} // closed when the client is connected, or could not be
	client *Client
	err    error
}

// join is a client for one more image, which leaves it at the end.
func (c *Clients) join(at ClientConfig) (*common, error) {
	c.mu.Lock()
	one := c.all[at]
	first := one == nil
	if first {
		one = &common{of: c, at: at, ready: make(chan struct{})}
		if c.all == nil {
			c.all = map[ClientConfig]*common{}
		}
		c.all[at] = one
	}
	one.images++
	c.mu.Unlock()
	if first {
		one.connect()
	}
	<-one.ready
	return one, one.err
}

// connect connects the client, which is for those who wait, too.
func (o *common) connect() {
	defer close(o.ready)
	connect := o.of.connect
	if connect == nil {
		connect = Connect
	}
	if o.client, o.err = connect(o.at); o.err != nil {
		o.refuse()
	}
}

// refuse leaves the client to the images that have it: the cluster refuses it.
func (o *common) refuse() {
	o.of.mu.Lock()
	defer o.of.mu.Unlock()
	if o.of.all[o.at] == o {
		delete(o.of.all, o.at)
	}
}

// leave is called when an image is closed. The last one ends the client.
func (o *common) leave() error {
	o.of.mu.Lock()
	o.images--
	last := o.images == 0
	if last && o.of.all[o.at] == o {
		delete(o.of.all, o.at)
	}
	o.of.mu.Unlock()
	if last && o.client != nil {
		return o.client.Close()
	}
	return nil
}

// A commonImage is an image of such a client.
type commonImage struct {
	image
	client *common
}

func (i commonImage) close() error { return errors.Join(i.image.close(), i.client.leave()) }

// dialCommon opens an image by the client of its cluster.
func (s *Store) dialCommon(cfg Config) (image, error) {
	one, err := cfg.Clients.join(ClientConfig{Conf: cfg.Conf, ID: cfg.ID})
	if err != nil {
		return nil, errors.Join(err, one.leave())
	}
	cfg.Client = one.client
	i, err := s.dialImage(&cfg)
	if err != nil {
		one.found(err)
		return nil, errors.Join(err, one.leave())
	}
	return commonImage{i, one}, nil
}

// found takes an error of the cluster's.
func (o *common) found(err error) {
	if errors.Is(err, blocklisted) {
		o.refuse()
	}
}

// refused says that the cluster has refused the client of an image.
func refused(i image, err error) {
	if c, ok := i.(commonImage); ok {
		c.client.found(err)
	}
}
