package block

import (
	"fmt"

	"github.com/nvmeof-go/nvmeof/backend/internal/disk"
)

// Options say how I/O is done. Files and block devices share this part of the configuration. Engine is the type of that
// name in package file.
type Options = disk.Options

// Config configures how a device is served. A zero field selects the default.
type Config struct {
	// BlockSize is 512 or 4096, and not less than the device's logical block size unless Buffered is set. The default
	// is the device's logical block size.
	BlockSize int

	ReadOnly bool
	Buffered bool // through the page cache, without alignment requirements

	// Force opens a device that is mounted or otherwise in use. Another program that writes to it then destroys what
	// hosts store, and hosts destroy what it stores.
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
