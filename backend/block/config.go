package block

import (
	"fmt"

	"github.com/nvmeof-go/nvmeof/backend/internal/disk"
)

// Options are how I/O is done: the part of a configuration that files and devices share.
// Its Engine is that of package file.
type Options = disk.Options

// Config says how a device is served. A zero field takes the default.
type Config struct {
	// BlockSize is 512 or 4096, and not less than the device's logical blocks
	// unless Buffered. The default is theirs.
	BlockSize int

	ReadOnly bool
	Buffered bool // through the page cache, with no demands on alignment

	// Force opens a device that is mounted or in use otherwise. Whoever else
	// writes to it then destroys what hosts store, and the other way round.
	Force bool

	Options
}

func (c *Config) check() error {
	if c.BlockSize != 0 && c.BlockSize != 512 && c.BlockSize != 4096 {
		return fmt.Errorf("block size %d: must be 512 or 4096", c.BlockSize)
	}
	_, err := c.Options.Check()
	return err
}
