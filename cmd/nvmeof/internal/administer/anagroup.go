package administer

import (
	"fmt"
	"io"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"github.com/nvmeof-go/nvmeof/cmd/nvmeof/internal/failure"
	"github.com/nvmeof-go/nvmeof/nvmeof/config"
	"github.com/nvmeof-go/nvmeof/nvmeof/control"
)

func newANAGroup() *cobra.Command {
	cmd := &cobra.Command{Use: "ana-group", Aliases: []string{"ana"}, Short: "Show and change the ANA groups of a running target"}
	var r Remote
	list := &cobra.Command{Use: "list", Short: "List the ANA states", Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			var all []*config.Listener
			if err := r.Get(cmd.Context(), "/v1/listeners", &all); err != nil {
				return err
			}
			return r.Show(cmd.OutOrStdout(), all, func(w io.Writer) {
				row(w, "LISTENER", "ADDRESS", "GROUP", "STATE")
				for _, l := range all {
					for _, g := range l.ANAGroups {
						row(w, l.ID, l.Address, g.Group, g.State)
					}
					row(w, l.ID, l.Address, "others", "optimized")
				}
			})
		}}
	r.AddSocket(list)
	r.AddOutput(list)
	cmd.AddCommand(list, newANASet(), newANAOwners(), newANAMove())
	return cmd
}

func newANASet() *cobra.Command {
	var r Remote
	var listener, state string
	states := config.Words[config.ANAState]()
	oneOf := strings.Join(states[:len(states)-1], ", ") + " or " + states[len(states)-1]
	cmd := &cobra.Command{Use: "set GROUP --listener ID --state STATE", Short: "Set the ANA state of a group on a listener",
		Example: "  nvmeof ana-group set 1 --listener 2 --state inaccessible", Args: cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			n, err := strconv.Atoi(args[0])
			switch {
			case err != nil:
				return failure.Usagef("group %s: want a number", args[0])
			case listener == "" || state == "":
				return failure.Usagef("--listener and --state are missing: the listener, and %s", oneOf)
			}
			return r.Edit(cmd, "PUT", control.Path("listeners", listener, "ana-groups"), map[string]any{"group": n, "state": state})
		}}
	cmd.Flags().StringVar(&listener, "listener", "", "identifier of the listener")
	cmd.Flags().StringVar(&state, "state", "", oneOf)
	_ = cmd.RegisterFlagCompletionFunc("state", cobra.FixedCompletions(states, cobra.ShellCompDirectiveNoFileComp))
	r.AddSocket(cmd)
	r.AddEdit(cmd)
	return cmd
}

func newPause() *cobra.Command {
	var r Remote
	var nqn, limit string
	cmd := &cobra.Command{Use: "pause NSID", Short: "Hold the commands of a namespace until resume or --limit", Args: cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := needNQN(nqn); err != nil {
				return err
			}
			body := map[string]any{}
			if limit != "" {
				body["limit"] = limit
			}
			err := r.Call(cmd.Context(), "POST", control.Path("subsystems", nqn, "namespaces", args[0], "pause"), nil, config.JSON(body), nil)
			if err == nil {
				fmt.Fprintf(cmd.OutOrStdout(), "pause namespace %s of %s: its commands wait for at most %s\n", args[0], nqn, orElse(limit, "10s"))
			}
			return err
		}}
	cmd.Flags().StringVar(&limit, "limit", "", "maximum time of the pause, up to 25s (default 10s)")
	cmd.Flags().StringVarP(&nqn, "nqn", "n", "", "name of the subsystem")
	r.AddSocket(cmd)
	return cmd
}

func newResume() *cobra.Command {
	return namespaceVerb("resume", "End a pause: commands are executed again")
}

func newClearFault() *cobra.Command {
	cmd := namespaceVerb("clear-fault", "Accept writes again to a namespace whose file or device had failed")
	cmd.Long = `Accept writes again to a namespace whose file or device had failed, for example
in a flush. The target refuses writes to it after such a failure. Clear the fault
when its cause is fixed and the content is checked: writes that were acknowledged
before the failure but not flushed may be lost. For a namespace that was truncated
while it was served, and has not failed, this confirms that the present size is
intended.`
	return cmd
}

// namespaceVerb returns a command for one namespace whose request has no body.
func namespaceVerb(name, short string) *cobra.Command {
	var r Remote
	var nqn string
	cmd := &cobra.Command{Use: name + " NSID", Short: short, Args: cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := needNQN(nqn); err != nil {
				return err
			}
			err := r.Call(cmd.Context(), "POST", control.Path("subsystems", nqn, "namespaces", args[0], name), nil, nil, nil)
			if err == nil {
				fmt.Fprintf(cmd.OutOrStdout(), "%s namespace %s of %s\n", name, args[0], nqn)
			}
			return err
		}}
	cmd.Flags().StringVarP(&nqn, "nqn", "n", "", "name of the subsystem")
	r.AddSocket(cmd)
	return cmd
}
