package main

import (
	"context"
	"fmt"
	"io"
	"slices"
	"time"

	"github.com/spf13/cobra"

	"github.com/nvmeof-go/nvmeof/cmd/nvmeof/internal/connections"
	"github.com/nvmeof-go/nvmeof/rdmatransport/softroce/udp"
)

// delegate lets the process connect that has this host's address already, if it is one
// that holds controllers, and stays for as long as the connection.
func delegate(cmd *cobra.Command, inUse *udp.InUseError, options map[string]string, print func(io.Writer, string) error) error {
	ctx := cmd.Context()
	all, err := connections.All(ctx, runDir())
	if err != nil {
		fmt.Fprintln(cmd.ErrOrStderr(), "warning:", err)
	}
	at := slices.IndexFunc(all, func(p connections.Process) bool { return slices.Contains(p.Addresses, inUse.Addr.String()) })
	if at < 0 {
		return inUse
	}
	owner := &all[at]
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
		now, err := owner.Info(ctx)
		if ctx.Err() == nil && (err != nil || !has(&now, name)) {
			return nil // as when it is disconnected here
		}
	}
}

const (
	leaveOwner  = 10 * time.Second
	lookAtOwner = time.Second
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
