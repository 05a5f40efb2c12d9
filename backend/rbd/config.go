package rbd

import (
	"errors"
	"fmt"
	"strings"
	"time"
)

// Config configures how an image is found and served. A zero field selects the default.
type Config struct {
	Conf string // path of the cluster's configuration; default: where Ceph's programs look for it
	ID   string // the user's name without "client."; default admin

	// Client is the client for the image, instead of its own; Conf and ID are then ignored. Close the client after the
	// store.
	Client *Client

	// Clients, if not nil, provides the client for the image, shared with others of the same Conf and ID. Client takes
	// precedence. Default: the image has its own client.
	Clients *Clients

	// Size is the size in bytes. A missing image is created and a smaller one is extended; a larger one keeps its size.
	// 0: the image must exist. The served size is rounded down to whole blocks.
	Size int64

	// Lost, if not nil, is called when a call of the store finds that the cluster has blocklisted its client, at most
	// once before the failure is cleared. It must not block, nor use the store.
	Lost func()

	BlockSize int // 512 or 4096; default 4096 if the size is a multiple of that, else 512
	ReadOnly  bool
}

// Time limits; tests have shorter ones.
const (
	// CloseTime is how long Close waits for a cluster that does not answer.
	CloseTime = 10 * time.Second

	// lockTime is how long Open waits for a lock whose owner may be gone: the cluster detects that after 30 s.
	lockTime = 40 * time.Second
)

// check validates what can be validated without the cluster.
func (c *Config) check(n *Name) error {
	switch {
	case c.Size < 0:
		return fmt.Errorf("size %d is negative", c.Size)
	case c.BlockSize != 0 && c.BlockSize != 512 && c.BlockSize != 4096:
		return fmt.Errorf("block size %d: must be 512 or 4096", c.BlockSize)
	case c.readOnly(n) && c.Size > 0:
		return errors.New("a size cannot be given for an image that is opened read-only")
	case strings.ContainsRune(c.Conf+c.ID, 0):
		return errors.New("the configuration's path or the client's name contains a zero byte")
	case strings.HasPrefix(c.ID, "client."):
		return fmt.Errorf("client %q: leave \"client.\" out", c.ID)
	}
	return nil
}

func (c *Config) readOnly(n *Name) bool { return c.ReadOnly || n.Snapshot != "" }
