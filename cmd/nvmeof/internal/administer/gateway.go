package administer

import (
	"cmp"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/nvmeof-go/nvmeof/cmd/nvmeof/internal/failure"
	"github.com/nvmeof-go/nvmeof/nvmeof/config"
	"github.com/nvmeof-go/nvmeof/nvmeof/control"
)

func newGateway() *cobra.Command {
	cmd := &cobra.Command{Use: "gateway", Aliases: []string{"gw"}, Short: "Show and change the gateways of a group, through any gateway"}
	cmd.AddCommand(newGatewayList(),
		gatewayOrder("drain", "Move all ANA groups of a gateway to others, until it is resumed", "POST", "drain",
			`Move all ANA groups of a gateway to others, one after the other: commands in progress
complete, written data is flushed, and hosts continue through the new owner of the
group. A drained gateway remains a member of the group, and can be stopped.`),
		gatewayOrder("resume", "Let a drained gateway serve again", "POST", "resume", ""),
		gatewayOrder("fail", "Fence a gateway, even if it is running, and move its ANA groups to others", "POST", "fail",
			`Fence a gateway: the storage refuses it, so that its commands in progress are no
longer executed, and other gateways serve its ANA groups. If the gateway is running
it rejoins by itself as a new member. Use drain for a gateway that works.`),
		gatewayOrder("remove", "Forget a gateway that has ended and does not come back", "DELETE", "",
			`Forget a gateway that has ended and does not come back. Its fence is no longer renewed:
make sure that no process of it is left, for example on a suspended machine.`))
	return cmd
}

func newGatewayList() *cobra.Command {
	var r Remote
	cmd := &cobra.Command{Use: "list", Short: "List the gateways of the group and their problems", Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			var g control.GroupStatus
			if err := r.Get(cmd.Context(), "/v1/group", &g); err != nil {
				return err
			}
			return r.Show(cmd.OutOrStdout(), g, func(w io.Writer) { gatewayTable(w, &g) })
		}}
	r.AddSocket(cmd)
	r.AddOutput(cmd)
	return cmd
}

// storeTime is the age of the last answer of the store from which on the user is told that it does not answer. The
// store is read every second.
const storeTime = 5 * time.Second

// storeRow prints how old the following information is.
func storeRow(w io.Writer, g *control.GroupStatus) {
	if age := time.Duration(g.Age) * time.Millisecond; age > storeTime {
		row(w, fmt.Sprintf("the group's store has not answered for %v: this may be outdated", age.Round(time.Second)))
	}
}

func gatewayTable(w io.Writer, g *control.GroupStatus) {
	storeRow(w, g)
	row(w, "GATEWAY", "STATE", "ANA GROUPS", "ADDRESSES", "CONTROLLER IDS")
	for _, x := range g.Gateways {
		name := x.Name
		if name == g.Gateway {
			name += nameSuffix(g)
		}
		ids := "-"
		if x.LastID > 0 {
			ids = fmt.Sprint(x.FirstID) + "-" + fmt.Sprint(x.LastID)
		}
		row(w, name, x.State, x.Groups, cmp.Or(strings.Join(x.Addresses, " "), "-"), ids)
	}
	if g.Behind != "" {
		row(w, "revision "+fmt.Sprint(int(g.Revision))+" of the configuration is not applied here: "+g.Behind)
	}
	for _, f := range g.Fences {
		state := "is being fenced"
		if f.Done {
			state = "is fenced"
		}
		row(w, f.Gateway+", incarnation "+f.Incarnation+", "+state)
	}
	for _, a := range g.Alarms {
		row(w, "alarm: "+a.Kind+": "+a.Text)
	}
}

// nameSuffix returns a suffix for the name of the gateway that was queried, since another one may have the same name.
func nameSuffix(g *control.GroupStatus) string {
	if slices.ContainsFunc(g.Alarms, func(a control.GroupAlarm) bool {
		return a.Kind == "name-in-use" && a.Gateway == g.Gateway
	}) {
		return " (not this one)"
	}
	return " (this one)"
}

func gatewayOrder(name, short, method, verb, long string) *cobra.Command {
	var r Remote
	wait := waiting{remote: &r}
	cmd := &cobra.Command{Use: name + " GATEWAY", Short: short, Long: long, Args: cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := wait.check(); err != nil {
				return err
			}
			parts := []string{"gateways", args[0]}
			if verb != "" {
				parts = append(parts, verb)
			}
			if err := r.Call(cmd.Context(), method, control.Path(parts...), nil, nil, nil); err != nil {
				return err
			}
			if err := wait.until(cmd.Context(), drained(args[0])); err != nil {
				return err
			}
			_, err := fmt.Fprintf(cmd.OutOrStdout(), "%s gateway %s\n", name, args[0])
			return err
		}}
	if verb == "drain" {
		wait.addFlag(cmd, "it serves no ANA group")
	}
	r.AddSocket(cmd)
	return cmd
}

// newANAOwners returns the command that shows which gateway serves which ANA group.
func newANAOwners() *cobra.Command {
	var r Remote
	cmd := &cobra.Command{Use: "owners", Short: "List the ANA groups with the gateways that serve them", Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			var g control.GroupStatus
			if err := r.Get(cmd.Context(), "/v1/group", &g); err != nil {
				return err
			}
			return r.Show(cmd.OutOrStdout(), g.Groups, func(w io.Writer) {
				storeRow(w, &g)
				row(w, "ANA GROUP", "GATEWAY", "EPOCH", "MOVING TO", "FENCE")
				for _, x := range g.Groups {
					row(w, x.Group, cmp.Or(x.Owner, "-"), x.Epoch, cmp.Or(x.Moving, "-"), cmp.Or(string(x.Fence), "-"))
				}
			})
		}}
	r.AddSocket(cmd)
	r.AddOutput(cmd)
	return cmd
}

func newANAMove() *cobra.Command {
	var r Remote
	var to string
	wait := waiting{remote: &r}
	cmd := &cobra.Command{Use: "move GROUP --gateway NAME", Short: "Move an ANA group to a gateway of the group", Example: "  nvmeof ana-group move 3 --gateway gw2", Args: cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			if to == "" {
				return failure.Usagef("--gateway is missing: the gateway that is to serve the group; see nvmeof gateway list")
			}
			if err := wait.check(); err != nil {
				return err
			}
			err := r.Call(cmd.Context(), "PUT", control.Path("group", "ana-groups", args[0], "gateway"), nil, config.JSON(map[string]any{"gateway": to}), nil)
			if err != nil {
				return err
			}
			id, _ := strconv.Atoi(args[0]) // the target has validated it
			if err := wait.until(cmd.Context(), moved(id, to)); err != nil {
				return err
			}
			_, err = fmt.Fprintf(cmd.OutOrStdout(), "move ana-group %s to gateway %s\n", args[0], to)
			return err
		}}
	cmd.Flags().StringVar(&to, "gateway", "", "name of the gateway")
	wait.addFlag(cmd, "that gateway serves it")
	r.AddSocket(cmd)
	return cmd
}
