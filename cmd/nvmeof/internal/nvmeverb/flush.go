package nvmeverb

import (
	"context"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/nvmeof-go/nvmeof/capsule"
)

func newFlush(to Connection) *cobra.Command {
	return ioVerb(to, "flush", "Flush written data to stable storage", func(*pflag.FlagSet) {}, func(ctx context.Context, c *call) error {
		return c.execute(ctx, capsule.Command{Opcode: capsule.Opcode(capsule.IOFlush)}, nil, "NVMe Flush: success")
	})
}
