package administer

import (
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/nvmeof-go/nvmeof/cmd/nvmeof/internal/failure"
	"github.com/nvmeof-go/nvmeof/nvmeof"
	"github.com/nvmeof-go/nvmeof/nvmeof/control"
)

func newController() *cobra.Command {
	cmd := &cobra.Command{Use: "controller", Short: "Show and disconnect the hosts that are connected to a running target"}
	cmd.AddCommand(newControllerList(), newControllerShow(), newControllerRemove())
	return cmd
}

// A RatedController is a controller with its rates per second, as controller list prints it.
type RatedController struct {
	control.Controller
	IOPS         float64 `json:"iops"`
	ReadBytes    float64 `json:"read-bytes-per-second"`
	WrittenBytes float64 `json:"written-bytes-per-second"`
}

// rates compares two readings.
func rates(before, after []control.Controller, d time.Duration) []RatedController {
	out := []RatedController{}
	for _, c := range after {
		r := RatedController{Controller: c}
		now := sumQueues(&c)
		for _, b := range before {
			if b.Subsystem != c.Subsystem || b.ID != c.ID || b.HostID != c.HostID || d <= 0 {
				continue
			}
			was := sumQueues(&b)
			r.IOPS = per(now.Commands, was.Commands, d)
			r.ReadBytes = per(now.ReadBytes, was.ReadBytes, d)
			r.WrittenBytes = per(now.WrittenBytes, was.WrittenBytes, d)
		}
		out = append(out, r)
	}
	return out
}

// per returns a rate per second. A counter that went back belongs to new queues.
func per(now, was uint64, d time.Duration) float64 {
	if now < was {
		return 0
	}
	return float64(now-was) / d.Seconds()
}

func sumQueues(c *control.Controller) (sum control.Queue) {
	for _, q := range c.Queues {
		sum.InFlight += q.InFlight
		sum.Commands += q.Commands
		sum.ReadBytes += q.ReadBytes
		sum.WrittenBytes += q.WrittenBytes
		sum.Depth = max(sum.Depth, q.Depth)
	}
	return sum
}

func newControllerList() *cobra.Command {
	var r Remote
	interval := time.Second
	cmd := &cobra.Command{Use: "list", Short: "List the controllers with their hosts and rates", Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if interval <= 0 {
				return failure.Usagef("--interval %v: rates are made from two readings: give a time between them, as 1s", interval)
			}
			var before, after []control.Controller
			start := time.Now()
			if err := r.Get(cmd.Context(), "/v1/controllers", &before); err != nil {
				return err
			}
			select {
			case <-cmd.Context().Done():
				return cmd.Context().Err()
			case <-time.After(interval):
			}
			if err := r.Get(cmd.Context(), "/v1/controllers", &after); err != nil {
				return err
			}
			all := rates(before, after, time.Since(start))
			return r.Show(cmd.OutOrStdout(), all, func(w io.Writer) { controllerTable(w, all) })
		}}
	cmd.Long = `List the controllers with their hosts and rates. The rates are computed from
two readings, --interval apart.`
	cmd.Flags().DurationVar(&interval, "interval", interval, "time between the two readings from which rates are computed")
	r.AddSocket(cmd)
	r.AddOutput(cmd)
	return cmd
}

func controllerTable(w io.Writer, all []RatedController) {
	row(w, "SUBSYSTEM", "ID", "HOST", "PEER", "LISTENER", "AUTH", "QUEUES", "DEPTH", "IN FLIGHT", "IOPS", "READ MB/s", "WRITE MB/s")
	for _, c := range all {
		sum := sumQueues(&c.Controller)
		auth := "no"
		if c.Authenticated {
			auth = "yes"
		}
		row(w, c.Subsystem, c.ID, c.Host, c.Peer, c.Listener, auth, len(c.Queues), sum.Depth, sum.InFlight,
			fmt.Sprintf("%.0f", c.IOPS), fmt.Sprintf("%.1f", c.ReadBytes/1e6), fmt.Sprintf("%.1f", c.WrittenBytes/1e6))
	}
}

func newControllerShow() *cobra.Command {
	var r Remote
	var nqn string
	cmd := &cobra.Command{Use: "show ID", Short: "Show a controller with its queues", Args: cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			var all []control.Controller
			if err := r.Get(cmd.Context(), "/v1/controllers", &all); err != nil {
				return err
			}
			c, err := oneController(all, args[0], nvmeof.NQN(nqn))
			if err != nil {
				return err
			}
			return r.Show(cmd.OutOrStdout(), c, func(w io.Writer) {
				row(w, "SUBSYSTEM", "HOST", "PEER", "LISTENER")
				row(w, c.Subsystem, c.Host, c.Peer, c.Listener)
				fmt.Fprintln(w)
				row(w, "QUEUE", "DEPTH", "SHARD", "IN FLIGHT", "COMMANDS", "READ", "WRITTEN")
				for _, q := range c.Queues {
					row(w, q.ID, q.Depth, q.Shard, q.InFlight, q.Commands, q.ReadBytes, q.WrittenBytes)
				}
			})
		}}
	cmd.Flags().StringVarP(&nqn, "nqn", "n", "", "name of the subsystem; required if several have a controller with that ID")
	r.AddSocket(cmd)
	completeControllers(cmd, &r, &nqn)
	r.AddOutput(cmd)
	return cmd
}

// oneController returns the controller with an ID in a subsystem, or without nqn in the only subsystem that has one
// with this ID.
func oneController(all []control.Controller, id string, nqn nvmeof.NQN) (*control.Controller, error) {
	var there, of []string
	var found *control.Controller
	for i, c := range all {
		if nqn != "" && c.Subsystem != nqn {
			continue
		}
		if number := strconv.Itoa(c.ID); !slices.Contains(there, number) {
			there = append(there, number)
		}
		if strconv.Itoa(c.ID) == id {
			found = &all[i]
			of = append(of, string(c.Subsystem))
		}
	}
	switch len(of) {
	case 0:
		return nil, &control.NotFoundError{Kind: "controller", Name: id, There: there}
	case 1:
		return found, nil
	}
	return nil, failure.Usagef("controller %s exists in each of %s: select one with --nqn", id, strings.Join(of, ", "))
}

func newControllerRemove() *cobra.Command {
	var r Remote
	var nqn string
	cmd := &cobra.Command{Use: "remove ID", Short: "Disconnect a host; it may reconnect", Args: cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			if nqn == "" {
				return failure.Usagef("--nqn is missing: the subsystem of the controller")
			}
			if err := r.Call(cmd.Context(), "DELETE", control.Path("subsystems", nqn, "controllers", args[0]), nil, nil, nil); err != nil {
				return err
			}
			_, err := fmt.Fprintf(cmd.OutOrStdout(), "remove controller %s of %s\n", args[0], nqn)
			return err
		}}
	cmd.Flags().StringVarP(&nqn, "nqn", "n", "", "name of the subsystem")
	r.AddSocket(cmd)
	completeControllers(cmd, &r, &nqn)
	return cmd
}

// completeControllers adds shell completion of the IDs of controllers, in the subsystem nqn if it is given, and of the
// subsystems that have controllers.
func completeControllers(cmd *cobra.Command, r *Remote, nqn *string) {
	offer := func(of func(control.Controller) string) []string {
		var all []control.Controller
		if r.Get(cmd.Context(), "/v1/controllers", &all) != nil {
			return nil
		}
		var names []string
		for _, c := range all {
			if *nqn == "" || c.Subsystem == nvmeof.NQN(*nqn) {
				names = append(names, of(c))
			}
		}
		slices.Sort(names)
		return slices.Compact(names)
	}
	cmd.ValidArgsFunction = func(_ *cobra.Command, args []string, _ string) ([]string, cobra.ShellCompDirective) {
		if len(args) > 0 {
			return nil, cobra.ShellCompDirectiveNoFileComp
		}
		return offer(func(c control.Controller) string { return strconv.Itoa(c.ID) }), cobra.ShellCompDirectiveNoFileComp
	}
	_ = cmd.RegisterFlagCompletionFunc("nqn", func(*cobra.Command, []string, string) ([]string, cobra.ShellCompDirective) {
		return offer(func(c control.Controller) string { return string(c.Subsystem) }), cobra.ShellCompDirectiveNoFileComp
	})
}
