package administer

import (
	"fmt"
	"io"
	"strings"

	"github.com/spf13/cobra"

	"github.com/nvmeof-go/nvmeof/cmd/nvmeof/internal/failure"
	"github.com/nvmeof-go/nvmeof/nvmeof"
	"github.com/nvmeof-go/nvmeof/nvmeof/config"
	"github.com/nvmeof-go/nvmeof/nvmeof/control"
)

// newKey returns the commands for the keys by which hosts and the target authenticate. Keys are stored in files; the
// commands show only the paths.
func newKey(generate *cobra.Command) *cobra.Command {
	cmd := &cobra.Command{Use: "key", Short: "Show and change the authentication keys of hosts of a running target"}
	generate.Use = strings.Replace(generate.Use, "gen-dhchap-key", "generate", 1)
	generate.Short = "Generate a key"
	cmd.AddCommand(generate, newKeyList(), newKeySet("add"), newKeySet("set"), newKeyRemove(), newKeyReread())
	return cmd
}

// A keyRow is a host with a key.
type keyRow struct {
	Subsystem     nvmeof.NQN     `json:"subsystem"`
	Host          nvmeof.NQN     `json:"host"`
	KeyFile       config.KeyFile `json:"key-file"`
	ControllerKey config.KeyFile `json:"controller-key-file,omitzero"`
}

func newKeyList() *cobra.Command {
	var r Remote
	cmd := &cobra.Command{Use: "list", Aliases: []string{"show"}, Short: "List the hosts that have keys, with the key files", Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			var all []*config.Subsystem
			if err := r.Get(cmd.Context(), "/v1/subsystems", &all); err != nil {
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
			return r.Show(cmd.OutOrStdout(), keys, func(w io.Writer) {
				row(w, "SUBSYSTEM", "HOST", "KEY FILE", "CONTROLLER KEY FILE")
				for _, k := range keys {
					row(w, k.Subsystem, k.Host, k.KeyFile, k.ControllerKey)
				}
			})
		}}
	r.AddSocket(cmd)
	r.AddOutput(cmd)
	return cmd
}

func newKeySet(name string) *cobra.Command {
	var r Remote
	var nqn string
	cmd := &cobra.Command{Use: name + " HOSTNQN", Short: "Set or replace the key of an allowed host", Args: cobra.ExactArgs(1)}
	set := addFields(cmd, config.Host{}, "access")
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		body, err := set.object()
		if err != nil {
			return err
		}
		if len(body) == 0 || nqn == "" {
			return failure.Usagef("--nqn and --key-file are missing; nvmeof key generate generates a key")
		}
		return r.Edit(cmd, "PATCH", control.Path("subsystems", nqn, "hosts", args[0]), body)
	}
	cmd.Flags().StringVarP(&nqn, "nqn", "n", "", "name of the subsystem")
	r.AddSocket(cmd)
	r.AddEdit(cmd)
	return cmd
}

func newKeyRemove() *cobra.Command {
	var r Remote
	var nqn string
	cmd := &cobra.Command{Use: "remove HOSTNQN", Short: "Remove a host's keys: it then connects without authentication", Args: cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := needNQN(nqn); err != nil {
				return err
			}
			body := map[string]any{"key-file": nil, "controller-key-file": nil, "hashes": nil, "dh-groups": nil}
			return r.Edit(cmd, "PATCH", control.Path("subsystems", nqn, "hosts", args[0]), body)
		}}
	cmd.Flags().StringVarP(&nqn, "nqn", "n", "", "name of the subsystem")
	r.AddSocket(cmd)
	r.AddEdit(cmd)
	return cmd
}

func newKeyReread() *cobra.Command {
	var r Remote
	cmd := &cobra.Command{Use: "reread", Short: "Read all key files again, as on SIGHUP", Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if err := r.Call(cmd.Context(), "POST", "/v1/keys/reread", nil, nil, nil); err != nil {
				return err
			}
			_, err := fmt.Fprintln(cmd.OutOrStdout(), "all keys were reread; each is used from its host's next authentication")
			return err
		}}
	r.AddSocket(cmd)
	return cmd
}
