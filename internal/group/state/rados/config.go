package rados

import (
	"errors"
	"fmt"
	"strings"
	"time"
)

// ErrNotBuilt says that this program was built without the store.
var ErrNotBuilt = errors.New("this build cannot keep a group's state in Ceph: build with -tags rbd and CGO_ENABLED=1")

// Config says where the state of a group is.
type Config struct {
	Conf string // path of the cluster's configuration; the default is where Ceph's programs look for it
	ID   string // of the client, without "client."; default admin

	Pool      string
	Namespace string // of the pool; default: none
	Group     string // the group's name

	// Timeout is how long the cluster has for an operation, in whole seconds; default 20 s.
	// What has not been answered by then has an unknown outcome.
	Timeout time.Duration
}

// leastTimeout is what the library needs to find another OSD in place of one that is gone.
const leastTimeout = 5 * time.Second

func (c *Config) check() error {
	switch all := c.Conf + c.ID + c.Pool + c.Namespace + c.Group; {
	case c.Pool == "" || c.Group == "":
		return errors.New("the pool, or the group's name, is empty: write rados://POOL/NAME")
	case strings.Contains(c.Pool+c.Group, "/"):
		return fmt.Errorf("pool %q, group %q: neither may have a slash", c.Pool, c.Group)
	case strings.ContainsRune(all, 0):
		return errors.New("a name has a zero byte in it")
	case c.Timeout < 0 || c.Timeout > 0 && c.Timeout < leastTimeout:
		return fmt.Errorf("timeout %v: must be %v at least", c.Timeout, leastTimeout)
	}
	return nil
}

func (c *Config) timeout() time.Duration {
	if c.Timeout == 0 {
		return 20 * time.Second
	}
	return c.Timeout
}

// object is the name of the group's object.
func (c *Config) object() string { return "nvmeof.group." + c.Group }
