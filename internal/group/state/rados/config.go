package rados

import (
	"errors"
	"fmt"
	"strings"
	"time"
)

// ErrNotBuilt says that this program was built without this store.
var ErrNotBuilt = errors.New("this build cannot keep a group's state in Ceph: build with -tags rbd and CGO_ENABLED=1")

// Config says where the state of a group is stored.
type Config struct {
	Conf string // path of the cluster's configuration; default: where Ceph's programs look for it
	ID   string // the user's name without "client."; default admin

	Pool      string
	Namespace string // of the pool; default: none
	Group     string // the group's name

	// Timeout is the time limit of the cluster for an operation, in whole seconds; default 20 s. The outcome of an
	// operation without an answer by then is unknown.
	Timeout time.Duration
}

// leastTimeout is what the library needs to find another OSD after one has failed.
const leastTimeout = 5 * time.Second

func (c *Config) check() error {
	switch all := c.Conf + c.ID + c.Pool + c.Namespace + c.Group; {
	case c.Pool == "" || c.Group == "":
		return errors.New("the pool or the group's name is empty: write rados://POOL/NAME")
	case strings.Contains(c.Pool+c.Group, "/"):
		return fmt.Errorf("pool %q, group %q: neither may have a slash", c.Pool, c.Group)
	case strings.ContainsRune(all, 0):
		return errors.New("a name contains a zero byte")
	case c.Timeout < 0 || c.Timeout > 0 && c.Timeout < leastTimeout:
		return fmt.Errorf("timeout %v: want at least %v", c.Timeout, leastTimeout)
	}
	return nil
}

func (c *Config) timeout() time.Duration {
	if c.Timeout == 0 {
		return 20 * time.Second
	}
	return c.Timeout
}

// object returns the name of the group's object.
func (c *Config) object() string { return "nvmeof.group." + c.Group }
