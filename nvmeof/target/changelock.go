package target

import (
	"sync"

	"github.com/nvmeof-go/nvmeof/capsule"
)

// A changeLock is held while the namespaces of a subsystem change, which waits for shards. It is not held while a
// store that is added, or the store of its reservations, is opened, since that may hang. Changes of other
// namespaces need not wait for that.
type changeLock struct {
	mu     sync.Mutex
	adding map[capsule.NSID]chan struct{} // NSIDs at which a namespace is being added; closed when that has ended
}

// Lock locks c and waits until no namespace is being added.
func (c *changeLock) Lock() {
	c.mu.Lock()
	for len(c.adding) > 0 {
		for id := range c.adding {
			c.awaitAdded(id)
		}
	}
}

// LockAt locks c and waits until no namespace is being added at an NSID; 0 means none.
func (c *changeLock) LockAt(id capsule.NSID) {
	c.mu.Lock()
	c.awaitAdded(id)
}

// awaitAdded is called with mu held, and releases it while it waits.
func (c *changeLock) awaitAdded(id capsule.NSID) {
	for c.adding[id] != nil {
		added := c.adding[id]
		c.mu.Unlock()
		<-added
		c.mu.Lock()
	}
}

// TryLock locks c if it is free and no namespace is being added, and reports whether it did.
func (c *changeLock) TryLock() bool {
	if !c.mu.TryLock() {
		return false
	}
	if len(c.adding) > 0 {
		c.mu.Unlock()
		return false
	}
	return true
}

// Unlock undoes Lock, LockAt or TryLock.
func (c *changeLock) Unlock() { c.mu.Unlock() }

// beginAdding blocks other changes at an NSID until endAdding. Called with the lock held.
func (c *changeLock) beginAdding(id capsule.NSID) {
	if c.adding == nil {
		c.adding = make(map[capsule.NSID]chan struct{})
	}
	c.adding[id] = make(chan struct{})
}

func (c *changeLock) endAdding(id capsule.NSID) {
	c.mu.Lock()
	defer c.mu.Unlock()
	close(c.adding[id])
	delete(c.adding, id)
}

// isAdding reports whether a namespace is being added at an NSID. Called with the lock held.
func (c *changeLock) isAdding(id capsule.NSID) bool { return c.adding[id] != nil }
