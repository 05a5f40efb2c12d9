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
	// aheadTime is how long an image stays open that its group has not come for.
	aheadTime = 15 * time.Second
	// aheads are opened at a time.
	aheads = 16
)

// An opener is an image that was opened while another gateway still had it, which [rbd.Ahead] is.
type opener interface {
	Open() (*rbd.Store, error)
	Close() error
}

// An ahead is one that is being opened, or is open.
type ahead struct {
	done  chan struct{} // closed when the following is constant
	image opener        // nil: it could not be opened, which is tried again when its group has come
}

// An imageKey is an image as a namespace opens it.
type imageKey struct {
	image     config.RBD
	blockSize int
}

func openAhead(name string, cfg rbd.Config) (opener, error) {
	a, err := rbd.OpenAhead(name, cfg)
	if err != nil {
		return nil, err // and not an opener that is nil
	}
	return a, nil
}

// aheadOf opens the images of groups that are about to come here, so that hosts wait less.
func (g *Gateway) aheadOf(s group.Status) {
	var coming []group.ID
	for _, x := range s.Groups {
		if x.Moving && x.To == g.name && x.Owner.Owner != g.name {
			coming = append(coming, x.Group.ID)
		}
	}
	if len(coming) == 0 {
		return
	}
	go func() { // ends when the images are open, or do not come in aheadTime
		doc := control.Present(g.manager)
		for _, id := range coming {
			g.images.openAhead(doc, id)
		}
	}()
}

// openAhead begins to open the images of a group that are not open yet.
func (c *clients) openAhead(doc *config.Document, id group.ID) {
	open := c.ahead
	if open == nil {
		open = openAhead
	}
	turns := make(chan struct{}, aheads)
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
			go func() { // ends aheadTime after the cluster has answered
				if image, err := open(n.RBD.Image, imageConfig(n.RBD, n.BlockSize, client, lost)); err == nil {
					a.image = image
				}
				close(a.done)
				<-turns
				time.Sleep(aheadTime)
				c.forgetAhead(key, a)
			}()
		}
	}
}

// begin notes that an image is opened ahead. It is nil where that is done already, or cannot be.
func (c *clients) begin(key imageKey) (*ahead, *rbd.Client, func()) {
	c.mu.Lock()
	defer c.mu.Unlock()
	of := c.all[clusterOf(&key.image)]
	if of == nil || !of.ready || c.opened[key] != nil {
		return nil, nil, nil
	}
	a := &ahead{done: make(chan struct{})}
	c.opened[key] = a
	client, _ := of.cluster.(*rbd.Client)
	return a, client, c.lost
}

// takeAhead returns the image that was opened ahead, to who opens it now; nil if there is none.
func (c *clients) takeAhead(key imageKey) opener {
	c.mu.Lock()
	a := c.opened[key]
	delete(c.opened, key)
	c.mu.Unlock()
	if a == nil {
		return nil
	}
	<-a.done // as long as opening it now would take
	return a.image
}

// forgetAhead closes an image that was opened ahead and is not used.
func (c *clients) forgetAhead(key imageKey, a *ahead) {
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

// end closes the image, which takes as long as the cluster does.
func (a *ahead) end() {
	<-a.done
	if a.image != nil {
		_ = a.image.Close() // nothing was done with it
	}
}
