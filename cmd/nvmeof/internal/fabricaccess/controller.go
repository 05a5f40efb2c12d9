package fabricaccess

import (
	"context"
	"errors"
	"time"

	"github.com/spf13/cobra"

	"github.com/nvmeof-go/nvmeof/capsule"
	"github.com/nvmeof-go/nvmeof/cmd/nvmeof/internal/fabricoptions"
	"github.com/nvmeof-go/nvmeof/cmd/nvmeof/internal/failure"
	"github.com/nvmeof-go/nvmeof/cmd/nvmeof/internal/hosts"
	"github.com/nvmeof-go/nvmeof/cmd/nvmeof/internal/nvmeverb"
	"github.com/nvmeof-go/nvmeof/cmd/nvmeof/internal/statusreport"
	"github.com/nvmeof-go/nvmeof/nvmeof/host"
)

// A verbConnection is how nvme-cli's commands get at their controller.
type verbConnection struct{ fabricoptions.Connection }

// AddFlags implements [nvmeverb.Connection].
func (c *verbConnection) AddFlags(cmd *cobra.Command) { c.Connection.AddFlags(cmd) }

// Timeout implements [nvmeverb.Connection].
func (c *verbConnection) Timeout() time.Duration { return c.Connection.Timeout }

// Connected implements [nvmeverb.Connection].
func (c *verbConnection) Connected(cmd *cobra.Command, f func(context.Context, *host.Controller) error) error {
	return statusreport.InJSON(cmd, withController(cmd, &c.Connection, f))
}

// NewVerbConnection is one for a command of nvme-cli.
func NewVerbConnection() nvmeverb.Connection { return new(verbConnection) }

// withController runs f with a controller that the flags point at. Once f has succeeded what follows is a warning at most.
func withController(cmd *cobra.Command, c *fabricoptions.Connection, f func(context.Context, *host.Controller) error) (err error) {
	s, err := hosts.OpenSession(c, cmd.ErrOrStderr())
	if err != nil {
		return err
	}
	var ended error
	defer func() {
		if ended = errors.Join(ended, s.Close()); err != nil {
			err = errors.Join(err, ended)
			return
		}
		hosts.Ended(cmd.ErrOrStderr(), ended)
	}()
	ctx := cmd.Context()
	controller, err := s.Connect(ctx, c.NQN)
	if err != nil {
		return err
	}
	if err := f(ctx, controller); err != nil {
		return statusreport.Failure(cmd, lost(controller, err), func(status capsule.Status) string {
			wanted, _ := cmd.Flags().GetUint32("namespace-id")
			return statusreport.Advice(ctx, controller, status, wanted, string(s.Identity.NQN))
		}) // closing the session disconnects
	}
	ended = controller.Disconnect(ctx)
	return nil
}

// lost is an error as the loss of its connection, where that is what it ended with and nothing was refused.
func lost(c *host.Controller, err error) error {
	why := c.Err()
	if why == nil || errors.Is(why, host.ErrClosed) || !errors.Is(err, why) || errors.As(err, new(*host.StatusError)) {
		return err
	}
	return &failure.Connect{Err: err}
}
