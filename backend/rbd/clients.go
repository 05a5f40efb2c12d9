package rbd

import (
	"cmp"
	"errors"
	"runtime"
	"sync"
)

// Clients are clients that images share ([Config.Clients]). A client has dozens of threads, and many clients exchange
// many small messages with the cluster instead of few large ones. A client connects with its first image and ends with
// its last one. When the cluster blocklists a client, all its images fail, and images opened later use another client.
// The zero value is ready. Stores with the same Clients may be used from different goroutines.
type Clients struct {
	// Number is the number of clients per configuration and user. More than one may be needed, since few threads begin
	// and end all requests of a client. Default: one for every four processors.
	Number int

	connect func(ClientConfig) (*Client, error) // nil: Connect

	mu  sync.Mutex
	all map[clientKey]*common // for new images
}

// A clientKey identifies a client.
type clientKey struct {
	ClientConfig
	n int // below Number
}

// processorsEach is the default number of processors per client.
const processorsEach = 4

func (c *Clients) number() int {
	return cmp.Or(c.Number, max(1, runtime.GOMAXPROCS(0)/processorsEach))
}

// A common is a client that images share.
type common struct {
	of     *Clients
	at     clientKey
	images int // guarded by the mutex of Clients

	ready  chan struct{} // closed when the client is connected or has failed to connect
	client *Client
	err    error
}

// join returns a client for another image, which must call leave at the end.
func (c *Clients) join(of ClientConfig) (*common, error) {
	one, first := c.choose(of)
	if first {
		one.connect()
	}
	<-one.ready
	return one, one.err
}

// choose adds an image to the client with the fewest images, and reports whether it is the client's first.
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

// connect connects the client, also for the images that wait for it.
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

// refuse stops giving the client to new images, because the cluster refuses it.
func (o *common) refuse() {
	o.of.mu.Lock()
	defer o.of.mu.Unlock()
	if o.of.all[o.at] == o {
		delete(o.of.all, o.at)
	}
}

// leave is called when an image is closed. The last call closes the client.
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

// A commonImage is an image of a shared client.
type commonImage struct {
	image
	client *common
}

func (i commonImage) close() error { return errors.Join(i.image.close(), i.client.leave()) }

// dialCommon opens an image with a shared client.
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

// found handles an error from the cluster.
func (o *common) found(err error) {
	if errors.Is(err, blocklisted) {
		o.refuse()
	}
}

// found handles an error of the currently open image.
func (s *Store) found(err error) error {
	if c, ok := s.current().(commonImage); ok {
		c.client.found(err)
	}
	return err
}

// refuse makes images that are opened from now on use another client than i's.
func refuse(i image) {
	if c, ok := i.(commonImage); ok {
		c.client.refuse()
	}
}

// anew opens an image. If the cluster has blocklisted the shared client it tries once more, with another client.
func (s *Store) anew(open func() error) error {
	err := open()
	if errors.Is(err, blocklisted) && s.cfg.Client == nil && s.cfg.Clients != nil {
		err = open()
	}
	return err
}
