package topcommand

import (
	"context"
	"fmt"
	"io"
	"os"
	"time"

	"github.com/spf13/cobra"

	"github.com/nvmeof-go/nvmeof/cmd/nvmeof/internal/activity"
	"github.com/nvmeof-go/nvmeof/cmd/nvmeof/internal/administer"
	"github.com/nvmeof-go/nvmeof/cmd/nvmeof/internal/failure"
	"github.com/nvmeof-go/nvmeof/cmd/nvmeof/internal/terminal"
	"github.com/nvmeof-go/nvmeof/nvmeof/control"
)

// least is the minimum interval at which a target reads its counters.
const least = time.Second

const help = `Show the activity of a running target: its namespaces, hosts, controllers, shards and
RDMA transport. With --once, or if the output is not a terminal, it takes two readings
and prints what happened between them.

Rates are per second, READ and WRITE in MB (10^6 bytes). P50 and P99 are latencies of
commands, from the arrival of the capsule to the sending of the response; ST-P50 and
ST-P99 are the part spent in the store, which excludes commands that are completed
from memory at once. Data transfer times are per shard: IN are RDMA READs of what
hosts write, OU are RDMA WRITEs of what they read, until acknowledged; TU are turns
of the shard's loop. Hosts and controllers have rates but no latencies.

Only targets have these counters, not processes of connect and attach.`

// A command holds the flags of top.
type command struct {
	remote   administer.Remote
	once     bool
	format   string
	interval time.Duration
	view     string
	filter   string
}

// Command returns the command top.
func Command() *cobra.Command { return newCommand(least) }

func newCommand(interval time.Duration) *cobra.Command {
	c := &command{interval: interval}
	cmd := &cobra.Command{Use: "top", Short: "Show the activity of a running target: rates, latencies, hosts and threads", Long: help, Args: cobra.NoArgs, RunE: c.run}
	f := cmd.Flags()
	f.BoolVar(&c.once, "once", false, "print what happened between two readings and end")
	f.DurationVar(&c.interval, "interval", c.interval, "time between two readings")
	f.StringVarP(&c.format, "output-format", "o", "normal", "normal or json, which implies --once")
	f.StringVar(&c.view, "view", "", "namespaces, hosts, controllers, shards or transport (default: namespaces; with --once all)")
	f.StringVar(&c.filter, "filter", "", "show only rows with these words in a name or an address; not for JSON")
	_ = cmd.RegisterFlagCompletionFunc("output-format", cobra.FixedCompletions([]string{"normal", "json"}, cobra.ShellCompDirectiveNoFileComp))
	_ = cmd.RegisterFlagCompletionFunc("view", cobra.FixedCompletions(viewNames(), cobra.ShellCompDirectiveNoFileComp))
	c.remote.AddSocket(cmd)
	return cmd
}

func viewNames() (names []string) {
	for v := range activity.Views {
		names = append(names, v.String())
	}
	return names
}

// views returns the views of --view, or all.
func (c *command) views() ([]activity.View, error) {
	var all []activity.View
	for v := range activity.Views {
		if c.view == v.String() {
			return []activity.View{v}, nil
		}
		all = append(all, v)
	}
	if c.view != "" {
		return nil, failure.Usagef("--view %s: want %s%s", c.view, failure.List(viewNames()), failure.DidYouMean(c.view, viewNames()))
	}
	return all, nil
}

func (c *command) run(cmd *cobra.Command, _ []string) error {
	views, err := c.views()
	if err != nil {
		return err
	}
	if cmd.Flags().Changed("interval") && c.interval < least {
		return failure.Usagef("--interval %v: want at least %v, the interval at which a target reads its counters", c.interval, least)
	}
	print, err := failure.Pick(c.format, map[string]printer{"normal": printText, "json": printJSON})
	if err != nil {
		return err
	}
	socket, err := c.remote.Find()
	if err == nil {
		err = cmd.Flags().Set("socket", socket) // also for commands after the target has ended
	}
	if err != nil {
		return err
	}
	if out := cmd.OutOrStdout(); !c.once && c.format == "normal" && terminal.Is(out) && terminal.Is(os.Stdin) {
		return c.watch(cmd.Context(), socket, out)
	}
	r, err := c.sample(cmd.Context(), socket)
	if err != nil {
		return err
	}
	return print(cmd.OutOrStdout(), r, views, c.filter)
}

// watch shows a target on a terminal. It fails if there is no target at first, but waits for one that disappears
// later.
func (c *command) watch(ctx context.Context, socket string, out io.Writer) error {
	if err := c.remote.Get(ctx, "/v1/measures", new(control.Measures)); err != nil {
		return explain(ctx, socket, err)
	}
	view := activity.Namespaces
	for v := range activity.Views {
		if c.view == v.String() {
			view = v
		}
	}
	return show(ctx, newScreen(socket, view, c.filter), c.interval, os.Stdin, out, os.Environ())
}

// sample takes two readings.
func (c *command) sample(ctx context.Context, socket string) (*activity.Report, error) {
	var before, now control.Measures
	if err := c.remote.Get(ctx, "/v1/measures", &before); err != nil {
		return nil, explain(ctx, socket, err)
	}
	select {
	case <-time.After(c.interval):
	case <-ctx.Done():
		return nil, ctx.Err()
	}
	if err := c.remote.Get(ctx, "/v1/measures", &now); err != nil {
		return nil, fmt.Errorf("second reading: %w", err)
	}
	return activity.Compare(&before, &now), nil
}
