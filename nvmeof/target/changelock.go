package target

import (
	"sync"

	"github.com/nvmeof-go/nvmeof/capsule"
)

// A changeLock is held while the namespaces of a subsystem change, which waits for shards. It is not held while
// the store of one that is added is opened, or what saves its reservations, which may hang: who changes others
// need not wait for that.
type changeLock struct {
	mu     sync.Mutex
	adding map[capsule.NSID]chan struct{} // where a namespace is being added; closed when that has ended
}

// Lock waits until no namespace is being added.
func (c *changeLock) Lock() {
	c.mu.Lock()
	for len(c.adding) > 0 {
		for id := range c.adding {
			c.awaitAdded(id)
		}
	}
}

// LockAt waits until no namespace is being added at an NSID; 0 is none.
func (c *changeLock) LockAt(id capsule.NSID) {
	c.mu.Lock()
	c.awaitAdded(id)
}

// awaitAdded is called with mu held, and does not hold it while it waits.
func (c *changeLock) awaitAdded(id capsule.NSID) {
	for c.adding[id] != nil {
		added := c.adding[id]
		c.mu.Unlock()
		<-added
		c.mu.Lock()
	}
}

// TryLock reports whether it has locked it: nobody has, and no namespace is being added.
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

// Unlock ends what Lock, LockAt or TryLock has begun.
func (c *changeLock) Unlock() { c.mu.Unlock() }

// beginAdding has nobody else change what is at an NSID until endAdding. Called with the lock held.
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
