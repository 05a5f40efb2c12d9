package main

import (
	"context"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/nvmeof-go/nvmeof/capsule"
)

func newFlush() *cobra.Command {
	return ioVerb("flush", "Make everything written durable", func(*pflag.FlagSet) {}, func(ctx context.Context, c *call) error {
		return c.execute(ctx, capsule.Command{Opcode: capsule.Opcode(capsule.IOFlush)}, nil, "NVMe Flush: success")
	})
}
