package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"time"

	"github.com/spf13/cobra"

	"github.com/nvmeof-go/nvmeof/cmd/nvmeof/internal/connections"
	"github.com/nvmeof-go/nvmeof/rdmatransport/softroce/udp"
)

// errOwnerEnded is why a connection ended that another process held.
var errOwnerEnded = errors.New("the process that held the connection has ended")

// delegate lets the process connect that has this host's address already, if it is one
// that holds controllers, and stays for as long as the connection.
func delegate(cmd *cobra.Command, inUse *udp.InUseError, options map[string]string, print func(io.Writer, string) error) error {
	ctx := cmd.Context()
	owner, err := ownerOf(ctx, inUse)
	if err != nil {
		return err
	}
	name, err := owner.Connect(ctx, options)
	if err != nil {
		return fmt.Errorf("process %d, which is the RoCE endpoint of %v, does not connect: %w", owner.PID, inUse.Addr, err)
	}
	fmt.Fprintf(cmd.ErrOrStderr(), "nvmeof: %s: held by process %d, which is the RoCE endpoint of %v\n", name, owner.PID, inUse.Addr)
	if err := print(cmd.OutOrStdout(), name); err != nil {
		return err
	}
	tellManager("READY=1")
	defer tellManager("STOPPING=1")
	for {
		select {
		case <-ctx.Done():
			leave, cancel := context.WithTimeout(context.WithoutCancel(ctx), leaveOwner)
			defer cancel()
			_, err := owner.Disconnect(leave, "", name, "")
			return err
		case <-time.After(lookAtOwner):
		}
		switch now, err := owner.Info(ctx); {
		case ctx.Err() != nil:
		case err != nil:
			fmt.Fprintf(cmd.ErrOrStderr(), "nvmeof: %s: process %d has ended\n", name, owner.PID)
			return errOwnerEnded
		case now.Lost[name] != "":
			return &connectError{fmt.Errorf("%s: %s", name, now.Lost[name])}
		case !has(&now, name):
			return nil // disconnected
		}
	}
}

// ownerOf is the process that has an address. It may be about to say so.
func ownerOf(ctx context.Context, inUse *udp.InUseError) (*connections.Process, error) {
	for range ownerTries {
		all, err := connections.All(ctx, runDir())
		if ctx.Err() != nil {
			return nil, context.Cause(ctx)
		}
		for i := range all {
			if slices.Contains(all[i].Addresses, inUse.Addr.String()) {
				return &all[i], nil
			}
		}
		if err != nil {
			return nil, errors.Join(inUse, err)
		}
		time.Sleep(ownerPause)
	}
	return nil, inUse
}

const (
	leaveOwner  = 10 * time.Second
	lookAtOwner = time.Second

	ownerTries = 10
	ownerPause = 100 * time.Millisecond
)

func has(p *connections.Process, controller string) bool {
	for _, s := range p.Subsystems {
		for _, c := range s.Controllers {
			if c.Name == controller {
				return true
			}
		}
	}
	return false
}
