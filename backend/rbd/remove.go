package rbd

import (
	"errors"
	"fmt"

	"golang.org/x/sys/unix"

	"github.com/nvmeof-go/nvmeof/backend"
)

// Remove removes an image with its data, which nobody has open; the error of one that somebody has is
// EBUSY. One that is not there is removed. Of the configuration only the cluster and the client count: the
// cluster refuses one by Client that is fenced.
func Remove(name string, cfg Config) error {
	n, err := ParseName(name)
	if err != nil {
		return err
	}
	if n.Snapshot != "" {
		return fmt.Errorf("remove image %s: it is a snapshot", n)
	}
	if c := cfg.Client; c != nil {
		if !c.enter() { // until it is removed: a client does not end before
			return fmt.Errorf("remove image %s: %w", n, backend.ErrClosed)
		}
		defer c.calls.Done()
	}
	if err := remove(n, &cfg); err != nil && !errors.Is(err, unix.ENOENT) {
		return fmt.Errorf("remove image %s: %w", n, err)
	}
	return nil
}
