package administer

import (
	"fmt"
	"io"

	"github.com/spf13/cobra"

	"github.com/nvmeof-go/nvmeof/cmd/nvmeof/internal/failure"
	"github.com/nvmeof-go/nvmeof/nvmeof"
	"github.com/nvmeof-go/nvmeof/nvmeof/control"
)

func newReservation() *cobra.Command {
	cmd := &cobra.Command{Use: "reservation", Short: "Show the reservations of a running target, and clear those of hosts that do not come back"}
	cmd.AddCommand(newReservationList(), newReservationClear())
	return cmd
}

func newReservationList() *cobra.Command {
	var r Remote
	var nqn string
	cmd := &cobra.Command{Use: "list", Short: "List the registrants and reservations of namespaces", Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			var all []control.Reservation
			if err := r.Get(cmd.Context(), "/v1/reservations", &all); err != nil {
				return err
			}
			some := []control.Reservation{}
			for _, x := range all {
				if nqn == "" || x.Subsystem == nvmeof.NQN(nqn) {
					some = append(some, x)
				}
			}
			return r.Show(cmd.OutOrStdout(), some, func(w io.Writer) { reservationTable(w, some) })
		}}
	cmd.Flags().StringVarP(&nqn, "nqn", "n", "", "name of the subsystem (default: all)")
	r.AddSocket(cmd)
	r.AddOutput(cmd)
	return cmd
}

func reservationTable(w io.Writer, all []control.Reservation) {
	yes := map[bool]string{true: "yes", false: "no"}
	row(w, "SUBSYSTEM", "NSID", "TYPE", "HOST", "HOST ID", "KEY", "HOLDS", "CONNECTED")
	for _, x := range all {
		for _, h := range x.Registrants {
			row(w, x.Subsystem, x.NSID, x.Type, h.Host, h.HostID, h.Key, yes[h.Holds], yes[h.Connected])
		}
	}
}

func newReservationClear() *cobra.Command {
	var r Remote
	var nqn, host string
	var all bool
	cmd := &cobra.Command{Use: "clear NSID", Short: "Remove the registration and reservation of a host that does not come back, or all of a namespace",
		Args: cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := needNQN(nqn); err != nil {
				return err
			}
			if all == (host != "") {
				return failure.Usagef("--host HOST or --all is missing: the registration to clear; see nvmeof reservation list")
			}
			parts := []string{"subsystems", nqn, "namespaces", args[0], "reservation"}
			if !all {
				parts = append(parts, host)
			}
			var options []string
			if r.force {
				options = append(options, "force")
			}
			if err := r.Call(cmd.Context(), "DELETE", control.Path(parts...), options, nil, nil); err != nil {
				return err
			}
			what := "registration of " + host
			if all {
				what = "all registrations and the reservation"
			}
			_, err := fmt.Fprintf(cmd.OutOrStdout(), "clear %s at namespace %s of %s\n", nvmeof.Visible(what), args[0], nqn)
			return err
		}}
	cmd.Long = `Remove the registration of a host, and with it the host's reservation. Reservations
outlive connections, and restarts of the target if a host has requested that. Use
this when the host that holds the reservation does not come back and no other
registrant can preempt it. The other registrants are notified as if a host had
done so.

Make sure that the host is down: if it is running and only cannot reach the target,
it may write again when it can, at the same time as the host that replaced it.`
	cmd.Flags().StringVarP(&nqn, "nqn", "n", "", "name of the subsystem")
	cmd.Flags().StringVar(&host, "host", "", "NQN or identifier of the host")
	cmd.Flags().BoolVar(&all, "all", false, "clear all registrations and the reservation")
	cmd.Flags().BoolVar(&r.force, "force", false, "clear even while the host is connected")
	r.AddSocket(cmd)
	return cmd
}
