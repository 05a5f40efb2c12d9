package main

import (
	"context"
	"errors"
	"time"

	"github.com/spf13/cobra"

	"github.com/nvmeof-go/nvmeof/capsule"
	"github.com/nvmeof-go/nvmeof/cmd/nvmeof/internal/nvmeverb"
	"github.com/nvmeof-go/nvmeof/nvmeof/host"
)

// A verbConnection is how nvme-cli's commands get at their controller.
type verbConnection struct{ connection }

// AddFlags implements [nvmeverb.Connection].
func (c *verbConnection) AddFlags(cmd *cobra.Command) { c.addFlags(cmd) }

// Timeout implements [nvmeverb.Connection].
func (c *verbConnection) Timeout() time.Duration { return c.timeout }

// Connected implements [nvmeverb.Connection].
func (c *verbConnection) Connected(cmd *cobra.Command, f func(context.Context, *host.Controller) error) error {
	return c.connected(cmd, f)
}

func newVerbConnection() nvmeverb.Connection { return new(verbConnection) }

// connected runs f with a controller that the flags point at.
func (c *connection) connected(cmd *cobra.Command, f func(context.Context, *host.Controller) error) (err error) {
	s, err := c.open(cmd.ErrOrStderr())
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, s.close()) }()
	ctx := cmd.Context()
	controller, err := s.connect(ctx, c.nqn)
	if err != nil {
		return err
	}
	if err := f(ctx, controller); err != nil {
		return statusFailure(cmd, err, func(status capsule.Status) string {
			wanted, _ := cmd.Flags().GetUint32("namespace-id")
			return advice(ctx, controller, status, wanted, string(s.identity.NQN))
		}) // closing the session disconnects
	}
	return controller.Disconnect(ctx)
}
