package rbd

import (
	"errors"
	"fmt"
	"strings"
	"time"
)

// Config says how an image is found and served. A zero field takes the default.
type Config struct {
	Conf string // path of the cluster's configuration; the default is where Ceph's programs look for it
	ID   string // of the client, without "client."; default admin

	// Client is that of the image, instead of one of its own: Conf and ID are not used then. It is
	// closed after the store.
	Client *Client

	// Clients, if not nil and there is no Client, has the client of the image, which others of the
	// same Conf and ID may have, too. Default: the image has one of its own.
	Clients *Clients

	// Size in bytes: a missing image is created, a smaller one extended, and a larger one is as
	// large as it is. 0: the image must exist. What is served is rounded down to whole blocks.
	Size int64

	// Lost, if not nil, is called when a call of the store says that the cluster has blocklisted its
	// client, at most once before the failure is cleared. It must not wait, nor use the store.
	Lost func()

	BlockSize int // 512 or 4096; default 4096 where the size is a multiple of that, else 512
	ReadOnly  bool
}

// Times, of which tests have shorter ones.
const (
	// CloseTime is how long Close waits for a cluster that does not answer.
	CloseTime = 10 * time.Second

	// lockTime is how long Open waits for a lock whose owner may be gone: the cluster misses
	// a client after 30 s.
	lockTime = 40 * time.Second
)

// check finds what can be said without the cluster.
func (c *Config) check(n *Name) error {
	switch {
	case c.Size < 0:
		return fmt.Errorf("size %d is negative", c.Size)
	case c.BlockSize != 0 && c.BlockSize != 512 && c.BlockSize != 4096:
		return fmt.Errorf("block size %d: must be 512 or 4096", c.BlockSize)
	case c.readOnly(n) && c.Size > 0:
		return errors.New("a size cannot be given for an image that is only read")
	case strings.ContainsRune(c.Conf+c.ID, 0):
		return errors.New("the configuration's path, or the client's name, has a zero byte in it")
	case strings.HasPrefix(c.ID, "client."):
		return fmt.Errorf("client %q: leave \"client.\" out", c.ID)
	}
	return nil
}

func (c *Config) readOnly(n *Name) bool { return c.ReadOnly || n.Snapshot != "" }
