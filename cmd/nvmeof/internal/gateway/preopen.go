package gateway

import (
	"cmp"
	"time"

	"github.com/nvmeof-go/nvmeof/backend/rbd"
	"github.com/nvmeof-go/nvmeof/internal/group"
	"github.com/nvmeof-go/nvmeof/nvmeof/config"
	"github.com/nvmeof-go/nvmeof/nvmeof/control"
)

const (
	// preopenTime is how long an image that was opened ahead stays open if its group does not come.
	preopenTime = 15 * time.Second
	// maxPreopened is the number of images that are opened at a time.
	maxPreopened = 16
)

// An opener is an image that was opened while another gateway still served it. [rbd.Ahead] is one.
type opener interface {
	Open() (*rbd.Store, error)
	Close() error
}

// A preopened is an image that is being opened ahead, or is open.
type preopened struct {
	done  chan struct{} // closed when image is set and constant
	image opener        // nil: it could not be opened, and is opened when its group has come
}

// An imageKey identifies an image and how a namespace opens it.
type imageKey struct {
	image     config.RBD
	blockSize int
}

func preopen(name string, cfg rbd.Config) (opener, error) {
	a, err := rbd.OpenAhead(name, cfg)
	if err != nil {
		return nil, err // not an opener that holds a nil pointer
	}
	return a, nil
}

// preopenMoving opens the images of groups that are about to move here, so that hosts wait less.
func (g *Gateway) preopenMoving(s group.Status) {
	var coming []group.ID
	for _, x := range s.Groups {
		if x.Moving && x.To == g.name && x.Owner.Owner != g.name {
			coming = append(coming, x.Group.ID)
		}
	}
	if len(coming) == 0 {
		return
	}
	go func() { // ends when the last images are being opened; each waits for a turn, at most as long as the cluster does
		doc := control.Present(g.manager)
		for _, id := range coming {
			g.images.preopen(doc, id)
		}
	}()
}

// preopen begins to open the images of a group that are not open yet.
func (c *clients) preopen(doc *config.Document, id group.ID) {
	open := c.preopenWith
	if open == nil {
		open = preopen
	}
	turns := make(chan struct{}, maxPreopened)
	for _, s := range doc.Subsystems {
		for _, n := range s.Namespaces {
			if n.RBD == nil || group.ID(cmp.Or(n.ANAGroup, 1)) != id {
				continue
			}
			key := imageKey{*n.RBD, n.BlockSize}
			a, client, lost := c.begin(key)
			if a == nil {
				continue
			}
			turns <- struct{}{}
			go func() { // ends preopenTime after the cluster has answered
				if image, err := open(n.RBD.Image, imageConfig(n.RBD, n.BlockSize, client, lost)); err == nil {
					a.image = image
				}
				close(a.done)
				<-turns
				time.Sleep(preopenTime)
				c.dropPreopened(key, a)
			}()
		}
	}
}

// begin notes that an image is being opened ahead. It returns nil if that has begun already, or is not possible.
func (c *clients) begin(key imageKey) (*preopened, *rbd.Client, func()) {
	c.mu.Lock()
	defer c.mu.Unlock()
	of := c.all[clusterOf(&key.image)]
	if of == nil || !of.ready || c.opened[key] != nil {
		return nil, nil, nil
	}
	a := &preopened{done: make(chan struct{})}
	c.opened[key] = a
	client, _ := of.cluster.(*rbd.Client)
	return a, client, c.lost
}

// takePreopened removes and returns an image that was opened ahead, nil if there is none.
func (c *clients) takePreopened(key imageKey) opener {
	c.mu.Lock()
	a := c.opened[key]
	delete(c.opened, key)
	c.mu.Unlock()
	if a == nil {
		return nil
	}
	<-a.done // no longer than opening it now would take
	return a.image
}

// dropPreopened closes an image that was opened ahead and is not used.
func (c *clients) dropPreopened(key imageKey, a *preopened) {
	c.mu.Lock()
	mine := c.opened[key] == a
	if mine {
		delete(c.opened, key)
	}
	c.mu.Unlock()
	if mine {
		a.end()
	}
}

// end closes the image. It takes as long as the cluster does.
func (a *preopened) end() {
	<-a.done
	if a.image != nil {
		_ = a.image.Close() // nothing was written to it
	}
}
