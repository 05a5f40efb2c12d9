package main

import (
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/nvmeof-go/nvmeof/nvmeof/config"
	"github.com/nvmeof-go/nvmeof/nvmeof/control"
)

func newLs() *cobra.Command {
	var r remote
	cmd := &cobra.Command{Use: "ls", Short: "Show a running target as a tree", Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			var doc config.Document
			var status control.Status
			var controllers []control.Controller
			if err := r.get(cmd.Context(), "/v1/config", &doc); err != nil {
				return err
			}
			if err := r.get(cmd.Context(), "/v1/status", &status); err != nil {
				return err
			}
			if err := r.get(cmd.Context(), "/v1/controllers", &controllers); err != nil {
				return err
			}
			printTree(cmd.OutOrStdout(), &doc, &status, controllers)
			return nil
		}}
	r.addSocket(cmd)
	return cmd
}

// A tree prints lines below each other.
type tree struct{ out io.Writer }

func (t tree) line(depth int, format string, args ...any) {
	fmt.Fprintf(t.out, "%s%s\n", strings.Repeat("  ", depth), fmt.Sprintf(format, args...))
}

func printTree(out io.Writer, doc *config.Document, status *control.Status, controllers []control.Controller) {
	t := tree{out}
	t.line(0, "target (process %d, since %s)", status.PID, status.Started.Format(time.DateTime))
	t.line(1, "listeners [%d]", len(doc.Listeners))
	for _, l := range doc.Listeners {
		t.line(2, "%d %v", l.ID, l.Address)
		for _, g := range l.ANAGroups {
			t.line(3, "ana-group %d %s", g.Group, g.State)
		}
	}
	t.line(1, "subsystems [%d]", len(doc.Subsystems))
	for _, s := range doc.Subsystems {
		t.subsystem(s, status, controllers)
	}
	t.line(1, "referrals [%d]", len(doc.Referrals))
	for _, x := range doc.Referrals {
		t.line(2, "%v", x.Address)
	}
}

func (t tree) subsystem(s *config.Subsystem, status *control.Status, controllers []control.Controller) {
	t.line(2, "%s (listeners %s)", s.NQN, listenerList(s))
	t.line(3, "namespaces [%d]", len(s.Namespaces))
	for _, n := range s.Namespaces {
		kind, export, size := describe(n)
		text := strings.Join(slices.DeleteFunc([]string{kind, export, size}, func(s string) bool { return s == "" }), " ")
		if n.ReadOnly {
			text += ", read-only"
		}
		for _, w := range status.Waiting {
			if w.Subsystem == s.NQN && w.NSID == n.NSID {
				text += ", WAITING: " + w.Why
			}
		}
		t.line(4, "%d %s, ana-group %d", n.NSID, text, max(n.ANAGroup, 1))
	}
	t.line(3, "hosts [%d]", len(s.Hosts))
	if s.AllowAnyHost {
		t.line(4, "any host")
	}
	for _, h := range s.Hosts {
		text := string(h.NQN) + " " + orElse(string(h.Access), "write")
		if h.KeyFile != "" {
			text += ", with a key"
		}
		t.line(4, "%s", text)
	}
	for _, c := range controllers {
		if c.Subsystem == string(s.NQN) {
			t.line(3, "controller %d: %s from %s, %d I/O queues", c.ID, c.Host, c.Peer, len(c.Queues))
		}
	}
}

func newController() *cobra.Command {
	cmd := &cobra.Command{Use: "controller", Short: "Show and disconnect who is connected to a running target"}
	cmd.AddCommand(newControllerList(), newControllerShow(), newControllerRemove())
	return cmd
}

// A ratedController is a controller with what it does in a second.
type ratedController struct {
	control.Controller
	IOPS         float64 `json:"iops"`
	ReadBytes    float64 `json:"read-bytes-per-second"`
	WrittenBytes float64 `json:"written-bytes-per-second"`
}

// rates compares two readings.
func rates(before, after []control.Controller, d time.Duration) []ratedController {
	out := []ratedController{}
	for _, c := range after {
		r := ratedController{Controller: c}
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

// per is a rate; a counter that went back belongs to new queues.
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
	var r remote
	interval := time.Second
	cmd := &cobra.Command{Use: "list", Short: "List who is connected, with what each does in a second", Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			var before, after []control.Controller
			start := time.Now()
			if err := r.get(cmd.Context(), "/v1/controllers", &before); err != nil {
				return err
			}
			select {
			case <-cmd.Context().Done():
				return cmd.Context().Err()
			case <-time.After(interval):
			}
			if err := r.get(cmd.Context(), "/v1/controllers", &after); err != nil {
				return err
			}
			all := rates(before, after, time.Since(start))
			return r.show(cmd.OutOrStdout(), all, func(w io.Writer) { controllerTable(w, all) })
		}}
	cmd.Flags().DurationVar(&interval, "interval", interval, "time between the two readings from which rates are made")
	r.addSocket(cmd)
	r.addOutput(cmd)
	return cmd
}

func controllerTable(w io.Writer, all []ratedController) {
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
	var r remote
	var nqn string
	cmd := &cobra.Command{Use: "show ID", Short: "Show a controller with its queues", Args: cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			var all []control.Controller
			if err := r.get(cmd.Context(), "/v1/controllers", &all); err != nil {
				return err
			}
			var there []string
			for _, c := range all {
				if nqn != "" && c.Subsystem != nqn {
					continue
				}
				if there = append(there, strconv.Itoa(c.ID)); strconv.Itoa(c.ID) != args[0] {
					continue
				}
				return r.show(cmd.OutOrStdout(), c, func(w io.Writer) {
					row(w, "QUEUE", "DEPTH", "SHARD", "IN FLIGHT", "COMMANDS", "READ", "WRITTEN")
					for _, q := range c.Queues {
						row(w, q.ID, q.Depth, q.Shard, q.InFlight, q.Commands, q.ReadBytes, q.WrittenBytes)
					}
				})
			}
			return &control.NotFoundError{Kind: "controller", Name: args[0], There: there}
		}}
	cmd.Flags().StringVarP(&nqn, "nqn", "n", "", "subsystem; default: the first that has a controller of that number")
	r.addSocket(cmd)
	r.addOutput(cmd)
	return cmd
}

func newControllerRemove() *cobra.Command {
	var r remote
	var nqn string
	cmd := &cobra.Command{Use: "remove ID", Short: "Disconnect a host, which may connect again", Args: cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			if nqn == "" {
				return usage("--nqn is missing: the subsystem of the controller")
			}
			return r.call(cmd.Context(), "DELETE", control.Path("subsystems", nqn, "controllers", args[0]), nil, nil, nil)
		}}
	cmd.Flags().StringVarP(&nqn, "nqn", "n", "", "subsystem")
	r.addSocket(cmd)
	return cmd
}

func newANAGroup() *cobra.Command {
	cmd := &cobra.Command{Use: "ana-group", Aliases: []string{"ana"}, Short: "Show and change how listeners of a running target reach groups of namespaces"}
	var r remote
	list := &cobra.Command{Use: "list", Short: "List the states", Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			var all []*config.Listener
			if err := r.get(cmd.Context(), "/v1/listeners", &all); err != nil {
				return err
			}
			return r.show(cmd.OutOrStdout(), all, func(w io.Writer) {
				row(w, "LISTENER", "ADDRESS", "GROUP", "STATE")
				for _, l := range all {
					for _, g := range l.ANAGroups {
						row(w, l.ID, l.Address, g.Group, g.State)
					}
					row(w, l.ID, l.Address, "others", "optimized")
				}
			})
		}}
	r.addSocket(list)
	r.addOutput(list)
	cmd.AddCommand(list, newANASet())
	return cmd
}

func newANASet() *cobra.Command {
	var r remote
	var listener, state string
	cmd := &cobra.Command{Use: "set GROUP --listener ID --state STATE", Short: "Set the state of a group on a listener",
		Example: "  nvmeof ana-group set 1 --listener 2 --state inaccessible", Args: cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			n, err := strconv.Atoi(args[0])
			switch {
			case err != nil:
				return usage("group %s: want a number", args[0])
			case listener == "" || state == "":
				return usage("--listener and --state are needed: which listener, and optimized, non-optimized, inaccessible, persistent-loss or change")
			}
			return r.edit(cmd, "PUT", control.Path("listeners", listener, "ana-groups"), map[string]any{"group": n, "state": state})
		}}
	cmd.Flags().StringVar(&listener, "listener", "", "identifier of the listener")
	cmd.Flags().StringVar(&state, "state", "", "optimized, non-optimized, inaccessible, persistent-loss or change")
	_ = cmd.RegisterFlagCompletionFunc("state", cobra.FixedCompletions(
		[]string{"optimized", "non-optimized", "inaccessible", "persistent-loss", "change"}, cobra.ShellCompDirectiveNoFileComp))
	r.addSocket(cmd)
	r.addEdit(cmd)
	return cmd
}

func newPause() *cobra.Command {
	var r remote
	var nqn, limit string
	cmd := &cobra.Command{Use: "pause NSID", Short: "Hold the commands of a namespace until resume, or until the limit is over", Args: cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			body := map[string]any{}
			if limit != "" {
				body["limit"] = limit
			}
			return r.call(cmd.Context(), "POST", control.Path("subsystems", nqn, "namespaces", args[0], "pause"), nil, config.JSON(body), nil)
		}}
	cmd.Flags().StringVar(&limit, "limit", "", "at most so long: default 10s, at most 25s")
	cmd.Flags().StringVarP(&nqn, "nqn", "n", "", "subsystem")
	_ = cmd.MarkFlagRequired("nqn")
	r.addSocket(cmd)
	return cmd
}

func newResume() *cobra.Command {
	var r remote
	var nqn string
	cmd := &cobra.Command{Use: "resume NSID", Short: "Let held commands go on", Args: cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			return r.call(cmd.Context(), "POST", control.Path("subsystems", nqn, "namespaces", args[0], "resume"), nil, nil, nil)
		}}
	cmd.Flags().StringVarP(&nqn, "nqn", "n", "", "subsystem")
	_ = cmd.MarkFlagRequired("nqn")
	r.addSocket(cmd)
	return cmd
}

// newKey is about the keys by which hosts and target prove who they are. Keys stand
// in files, whose paths alone are shown.
func newKey() *cobra.Command {
	cmd := &cobra.Command{Use: "key", Short: "Show and change by which keys hosts of a running target authenticate"}
	cmd.AddCommand(newKeyList(), newKeySet("add"), newKeySet("set"), newKeyRemove(), newKeyReread())
	return cmd
}

// A keyRow is a host with a key.
type keyRow struct {
	Subsystem     config.NQN     `json:"subsystem"`
	Host          config.NQN     `json:"host"`
	KeyFile       config.KeyFile `json:"key-file"`
	ControllerKey config.KeyFile `json:"controller-key-file,omitzero"`
}

func newKeyList() *cobra.Command {
	var r remote
	cmd := &cobra.Command{Use: "list", Aliases: []string{"show"}, Short: "List the hosts that have keys, and the files", Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			var all []*config.Subsystem
			if err := r.get(cmd.Context(), "/v1/subsystems", &all); err != nil {
				return err
			}
			keys := []keyRow{}
			for _, s := range all {
				for _, h := range s.Hosts {
					if h.KeyFile != "" {
						keys = append(keys, keyRow{s.NQN, h.NQN, h.KeyFile, h.ControllerKeyFile})
					}
				}
			}
			return r.show(cmd.OutOrStdout(), keys, func(w io.Writer) {
				row(w, "SUBSYSTEM", "HOST", "KEY FILE", "CONTROLLER KEY FILE")
				for _, k := range keys {
					row(w, k.Subsystem, k.Host, k.KeyFile, k.ControllerKey)
				}
			})
		}}
	r.addSocket(cmd)
	r.addOutput(cmd)
	return cmd
}

func newKeySet(name string) *cobra.Command {
	var r remote
	var nqn string
	cmd := &cobra.Command{Use: name + " HOSTNQN", Short: "Give an allowed host a key, or another one", Args: cobra.ExactArgs(1)}
	set := addFields(cmd, config.Host{}, []fieldFlag{{"key-file", "key-file"}, {"controller-key-file", "controller-key-file"},
		{"hashes", "hashes"}, {"dh-groups", "dh-groups"}})
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		body, err := set.object()
		if err != nil {
			return err
		}
		if len(body) == 0 || nqn == "" {
			return usage("--nqn and --key-file are needed; nvmeof gen-dhchap-key makes a key")
		}
		return r.edit(cmd, "PATCH", control.Path("subsystems", nqn, "hosts", args[0]), body)
	}
	cmd.Flags().StringVarP(&nqn, "nqn", "n", "", "subsystem")
	r.addSocket(cmd)
	r.addEdit(cmd)
	return cmd
}

func newKeyRemove() *cobra.Command {
	var r remote
	var nqn string
	cmd := &cobra.Command{Use: "remove HOSTNQN", Short: "Take a host's word for who it is from now on", Args: cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			if nqn == "" {
				return usage("--nqn is missing: the subsystem")
			}
			body := map[string]any{"key-file": nil, "controller-key-file": nil, "hashes": nil, "dh-groups": nil}
			return r.edit(cmd, "PATCH", control.Path("subsystems", nqn, "hosts", args[0]), body)
		}}
	cmd.Flags().StringVarP(&nqn, "nqn", "n", "", "subsystem")
	r.addSocket(cmd)
	r.addEdit(cmd)
	return cmd
}

func newKeyReread() *cobra.Command {
	var r remote
	cmd := &cobra.Command{Use: "reread", Short: "Read all key files again, as on SIGHUP", Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return r.call(cmd.Context(), "POST", "/v1/keys/reread", nil, nil, nil)
		}}
	r.addSocket(cmd)
	return cmd
}
