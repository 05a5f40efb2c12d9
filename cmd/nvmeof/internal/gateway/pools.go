package gateway

import (
	"slices"
	"sync"

	"github.com/nvmeof-go/nvmeof/backend/rbd"
	"github.com/nvmeof-go/nvmeof/nvmeof/config"
)

// imagePools are the pools of images as their headers have them: an image's data may be in another pool than its header,
// which the configuration does not say. They are known of each image that this gateway has opened, or probed because
// another one serves it. The zero value is ready for use.
type imagePools struct {
	mu  sync.Mutex
	all map[imageName][]string
}

// An imageName identifies an image.
type imageName struct {
	at    rbd.ClientConfig
	image string
}

func nameOf(n *config.RBD) imageName { return imageName{clusterOf(n), n.Image} }

// learn notes the pools of an image.
func (p *imagePools) learn(n *config.RBD, pools []string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.all == nil {
		p.all = map[imageName][]string{}
	}
	p.all[nameOf(n)] = pools
}

// of returns the pools of an image: that of its header alone if no more is known, and none if its name is none.
func (p *imagePools) of(n *config.RBD) []string {
	p.mu.Lock()
	pools := p.all[nameOf(n)]
	p.mu.Unlock()
	if len(pools) > 0 {
		return pools
	}
	name, err := rbd.ParseName(n.Image)
	if err != nil {
		return nil // it cannot be opened either
	}
	return []string{name.In()}
}

// ofAll returns the pools of all images of a configuration by cluster, and forgets images that it does not have.
func (p *imagePools) ofAll(doc *config.Document) map[rbd.ClientConfig][]string {
	all, known := map[rbd.ClientConfig][]string{}, map[imageName]bool{}
	for n := range withImages(doc) {
		known[nameOf(n.RBD)] = true
		at := clusterOf(n.RBD)
		for _, pool := range p.of(n.RBD) {
			if !slices.Contains(all[at], pool) {
				all[at] = append(all[at], pool)
			}
		}
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	for n := range p.all {
		if !known[n] {
			delete(p.all, n)
		}
	}
	return all
}
