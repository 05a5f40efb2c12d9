package rbd

import (
	"errors"
	"fmt"

	"golang.org/x/sys/unix"

	"github.com/nvmeof-go/nvmeof/backend"
)

// Remove removes an image with its data. An image that is open fails with EBUSY, and a missing image is not an error.
// Of the configuration only the cluster and the client are used. If Client is fenced, the cluster refuses the removal.
func Remove(name string, cfg Config) error {
	n, err := ParseName(name)
	if err != nil {
		return err
	}
	if n.Snapshot != "" {
		return fmt.Errorf("remove image %s: it is a snapshot", n)
	}
	if c := cfg.Client; c != nil {
		if !c.enter() { // until the image is removed: the client must not end before
			return fmt.Errorf("remove image %s: %w", n, backend.ErrClosed)
		}
		defer c.calls.Done()
	}
	if err := remove(n, &cfg); err != nil && !errors.Is(err, unix.ENOENT) {
		return fmt.Errorf("remove image %s: %w", n, err)
	}
	return nil
}
