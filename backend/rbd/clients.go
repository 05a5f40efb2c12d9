package rbd

import (
	"cmp"
	"errors"
	"runtime"
	"sync"
)

// Clients are those of clusters that images have in common ([Config.Clients]). A client has dozens of
// threads, and with many clients the cluster's messages are as many small ones. A client connects with its
// first image and ends with its last one. When the cluster blocklists it all its images fail, and those that
// are opened after that get another. The zero value is ready. Stores with the same Clients may be used from
// different goroutines.
type Clients struct {
	// Number is how many there are for the images of one configuration and user, since few threads
	// begin and end all requests of a client. Default: one for each four processors.
	Number int

	connect func(ClientConfig) (*Client, error) // nil: Connect

	mu  sync.Mutex
	all map[clientKey]*common // that new images get
}

// A clientKey names one client.
type clientKey struct {
	ClientConfig
	n int // below Number
}

// processorsEach is how many processors have a client by default.
const processorsEach = 4

func (c *Clients) number() int {
	return cmp.Or(c.Number, max(1, runtime.GOMAXPROCS(0)/processorsEach))
}

// A common is a client that images have in common.
type common struct {
	of     *Clients
	at     clientKey
	images int // under the mutex of Clients

	ready  chan struct{} // closed when the client is connected, or could not be
	client *Client
	err    error
}

// join is a client for one more image, which leaves it at the end.
func (c *Clients) join(of ClientConfig) (*common, error) {
	one, first := c.choose(of)
	if first {
		one.connect()
	}
	<-one.ready
	return one, one.err
}

// choose counts one more image of the client that has the fewest, and reports whether that is its first.
func (c *Clients) choose(of ClientConfig) (one *common, first bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for n := range c.number() {
		at := clientKey{of, n}
		has := c.all[at]
		if has == nil {
			has = &common{of: c, at: at, ready: make(chan struct{})}
		}
		if one == nil || has.images < one.images {
			one = has
		}
	}
	if c.all == nil {
		c.all = map[clientKey]*common{}
	}
	first = c.all[one.at] == nil
	c.all[one.at] = one
	one.images++
	return one, first
}

// connect connects the client, which is for those who wait, too.
func (o *common) connect() {
	defer close(o.ready)
	connect := o.of.connect
	if connect == nil {
		connect = Connect
	}
	if o.client, o.err = connect(o.at.ClientConfig); o.err != nil {
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
	one, err := cfg.Clients.join(ClientConfig{Conf: cfg.Conf, ID: cmp.Or(cfg.ID, "admin")})
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

// found takes an error of the image that is open now.
func (s *Store) found(err error) error {
	if c, ok := s.current().(commonImage); ok {
		c.client.found(err)
	}
	return err
}

// refuse has images that are opened from now on by another client than this one.
func refuse(i image) {
	if c, ok := i.(commonImage); ok {
		c.client.refuse()
	}
}

// anew opens an image, once more where that has found that the cluster has blocklisted the client that
// images have in common: the next one is another.
func (s *Store) anew(open func() error) error {
	err := open()
	if errors.Is(err, blocklisted) && s.cfg.Client == nil && s.cfg.Clients != nil {
		err = open()
	}
	return err
}
