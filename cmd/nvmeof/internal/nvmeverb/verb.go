package nvmeverb

import (
	"context"
	"io"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/nvmeof-go/nvmeof/capsule"
	"github.com/nvmeof-go/nvmeof/cmd/nvmeof/internal/failure"
	"github.com/nvmeof-go/nvmeof/cmd/nvmeof/internal/nvmecli"
	"github.com/nvmeof-go/nvmeof/nvmeof/host"
)

// A verb holds what all of nvme-cli's commands on one controller share.
type verb struct {
	Connection
	format string
	raw    bool
	human  bool
	// verbose counts -v: one is equivalent to -H.
	verbose int
	nsid    uint32
	// impatient means that --timeout was given.
	impatient bool
}

// A call is a verb that has connected to its controller.
type call struct {
	*host.Controller
	nvmecli.Output
	verb *verb
	raw  bool
	in   io.Reader
	warn io.Writer
}

// deviceName is nvme-cli's name of the controller if it is the only one.
const deviceName = "nvme0"

// Optional capabilities of a verb.
const (
	canRaw   = 1 << iota // -b, --raw-binary
	canHuman             // -H, --human-readable
)

// newVerb returns a command of nvme-cli. Its own flags take precedence over the shorthands of the connection's flags.
// The namespace flag has no shorthand, since -n is that of the subsystem here.
func newVerb(name, short string, can int, v *verb, flags func(*pflag.FlagSet), run func(context.Context, *call) error) *cobra.Command {
	cmd := &cobra.Command{
		Use:   name + " -t rdma -a ADDR -n NQN",
		Short: short + ", as nvme " + name,
		Args:  cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if _, err := failure.Pick(v.format, map[string]bool{"normal": true, "json": true, "binary": true}); err != nil {
				return err
			}
			v.impatient = cmd.Flags().Changed("timeout")
			raw := v.raw || v.format == "binary"
			return v.Connected(cmd, func(ctx context.Context, h *host.Controller) error {
				out := nvmecli.Output{W: cmd.OutOrStdout(), Device: deviceName, JSON: v.format == "json" && !raw, Human: v.human || v.verbose > 0}
				return run(ctx, &call{h, out, v, raw, cmd.InOrStdin(), cmd.ErrOrStderr()})
			})
		},
	}
	own := cmd.Flags()
	own.StringVarP(&v.format, "output-format", "o", "normal", "output format: normal|json|binary")
	own.CountVarP(&v.verbose, "verbose", "v", "increase output verbosity")
	if can&canRaw != 0 {
		own.BoolVarP(&v.raw, "raw-binary", "b", false, "output in binary format")
	}
	if can&canHuman != 0 {
		own.BoolVarP(&v.human, "human-readable", "H", false, "show info in readable format")
	}
	if flags != nil {
		flags(own)
	}
	addConnection(cmd, v.Connection)
	_ = cmd.RegisterFlagCompletionFunc("output-format", cobra.FixedCompletions([]string{"normal", "json", "binary"}, cobra.ShellCompDirectiveNoFileComp))
	return cmd
}

// addConnection adds the flags of the connection, without those and the shorthands that the command defines itself.
func addConnection(cmd *cobra.Command, c Connection) {
	var all cobra.Command
	c.AddFlags(&all)
	cmd.PreRunE = all.PreRunE // which parses the flags
	all.Flags().VisitAll(func(f *pflag.Flag) {
		if cmd.Flags().Lookup(f.Name) != nil {
			return
		}
		if f.Shorthand != "" && cmd.Flags().ShorthandLookup(f.Shorthand) != nil {
			f.Shorthand = ""
		}
		cmd.Flags().AddFlag(f)
	})
}

// milliseconds returns the value of --timeout, or 0 if it was not given.
func (v *verb) milliseconds() uint32 {
	if !v.impatient {
		return 0
	}
	return uint32(v.Timeout().Milliseconds())
}

// namespaceFlag adds the namespace flag, whose default differs between verbs.
func (v *verb) namespaceFlag(f *pflag.FlagSet, otherwise capsule.NSID, usage string) {
	f.Uint32Var(&v.nsid, "namespace-id", uint32(otherwise), usage)
}

// id returns the namespace of the flag, whether it exists or not.
func (c *call) id() capsule.NSID { return capsule.NSID(c.verb.nsid) }

// namespace returns the wanted namespace, or the lowest.
func (c *call) namespace(ctx context.Context) (*host.Namespace, error) {
	id, err := c.there(ctx)
	if err != nil {
		return nil, err
	}
	return c.Namespace(ctx, id)
}

// there returns the NSID of the wanted namespace, which must exist, or the lowest.
func (c *call) there(ctx context.Context) (capsule.NSID, error) {
	return ChooseNamespace(ctx, c.Controller, c.verb.nsid)
}

// execute sends an I/O command to the namespace and prints that it was done.
func (c *call) execute(ctx context.Context, cmd capsule.Command, data []byte, done string) error {
	ns, err := c.namespace(ctx)
	if err != nil {
		return err
	}
	if _, err := ns.Execute(ctx, cmd, data); err != nil {
		return err
	}
	_, err = io.WriteString(c.W, done+"\n")
	return err
}

// write writes the data that was read unchanged.
func (c *call) write(b []byte) error { return writeAll(c.W, b) }

func writeAll(w io.Writer, data []byte) error {
	_, err := w.Write(data)
	return err
}
