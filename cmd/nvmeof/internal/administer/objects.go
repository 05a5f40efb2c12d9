package administer

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/nvmeof-go/nvmeof/cmd/nvmeof/internal/failure"
	"github.com/nvmeof-go/nvmeof/nvmeof/config"
	"github.com/nvmeof-go/nvmeof/nvmeof/control"
)

func lower(s string) string { return strings.ToLower(s) }

// Commands returns the commands for a running target. generate becomes key generate.
func Commands(generate *cobra.Command) []*cobra.Command {
	ns := namespaceObject().command()
	ns.AddCommand(newPause(), newResume(), newClearFault())
	return []*cobra.Command{
		newLs(), subsystemObject().command(), ns, listenerObject().command(), hostObject().command(),
		newController(), newEvents(), newReservation(), newANAGroup(), newGateway(), referralObject().command(), newKey(generate),
		newCapture(), newTrace(),
	}
}

// subsystemNames returns the completions of --nqn.
func subsystemNames(ctx context.Context, r *Remote) []string {
	return subsystemObject().names(ctx, &verb{Remote: *r})
}

func subsystemObject() *object[config.Subsystem] {
	return &object[config.Subsystem]{
		name: "subsystem", what: "subsystems", key: "NQN", keyField: "nqn", list: "subsystems",
		head: []any{"NQN", "SERIAL", "NAMESPACES", "HOSTS", "LISTENERS"},
		row: func(s *config.Subsystem) []any {
			hosts := fmt.Sprint(len(s.Hosts))
			if s.AllowAnyHost {
				hosts = "any"
			}
			return []any{s.NQN, orElse(s.Serial, config.DefaultSerial(s.NQN)), len(s.Namespaces), hosts, listenerList(s)}
		},
		id: func(s *config.Subsystem) string { return string(s.NQN) },
	}
}

func orElse(s, other string) string {
	if s == "" {
		return other
	}
	return s
}

func listenerList(s *config.Subsystem) string {
	if len(s.Listeners) == 0 {
		return "all"
	}
	return strings.Trim(strings.ReplaceAll(fmt.Sprint(s.Listeners), " ", ","), "[]")
}

func namespaceObject() *object[config.Namespace] {
	return &object[config.Namespace]{
		name: "namespace", alias: "ns", what: "namespaces", key: "NSID", keyField: "nsid", keyNumber: true, within: true, list: "namespaces",
		head:  []any{"NSID", "KIND", "EXPORT", "SIZE", "BLOCK", "ANA GROUP", "ACCESS", "STATE", "UUID"},
		rows:  namespaceRows,
		note:  namespaceNote,
		facts: namespaceFacts,
		id:    func(n *config.Namespace) string { return fmt.Sprint(n.NSID) },
		extend: func(cmd *cobra.Command) func(map[string]any) error {
			return func(body map[string]any) error {
				putForce(body, cmd)
				if err := filesOnly(body, cmd); err != nil {
					return err
				}
				putImage(body)
				return nil
			}
		},
		complete: func(ctx context.Context, v *verb, key string, body map[string]any) error {
			file, some := body["file"].(map[string]any)
			if _, other := file["path"]; !some || other {
				return nil
			}
			var n config.Namespace
			if err := v.Get(ctx, control.Path("subsystems", v.nqn, "namespaces", key), &n); err != nil {
				return err
			}
			if n.Memory != nil {
				return failure.Usagef("namespace %s is memory, and --size, --thin, --buffered and --engine are options of files: "+
					"--memory SIZE changes its size, --file PATH makes it a file; both lose its data", key)
			}
			if n.Block == nil {
				return nil
			}
			delete(body, "file") // --engine and --buffered apply to both
			for name, value := range file {
				put(body, "block."+name, value)
			}
			return nil
		},
	}
}

// filesOnly returns an error if flags that apply to files only are given for something else.
func filesOnly(body map[string]any, cmd *cobra.Command) error {
	file, _ := body["file"].(map[string]any)
	if cmd.Name() != "add" || file == nil || file["path"] != nil {
		return nil
	}
	var flags []string
	for name := range file {
		if name != "force" && (name != "size" || body["rbd"] == nil) {
			flags = append(flags, "--"+name)
		}
	}
	if len(flags) == 0 {
		return nil
	}
	slices.Sort(flags)
	for _, other := range []string{"memory", "block", "rbd"} {
		if body[other] != nil {
			return failure.Usagef("%[2]s: options of files only, not of --%[1]s: remove them, or give --file PATH", other, strings.Join(flags, ", "))
		}
	}
	return failure.Usagef("%s: options of files, but --file PATH is missing", strings.Join(flags, ", "))
}

// putImage applies --size to the image, if one is named.
func putImage(body map[string]any) {
	file, _ := body["file"].(map[string]any)
	if body["rbd"] == nil || file == nil || file["path"] != nil {
		return
	}
	delete(body, "file")
	for name, value := range file {
		put(body, "rbd."+name, value)
	}
}

// putForce sets the force field of a named file or device if --force was given for the change.
func putForce(body map[string]any, cmd *cobra.Command) {
	force, _ := cmd.Flags().GetBool("force")
	switch {
	case !force:
	case body["block"] != nil:
		put(body, "block.force", true)
	case body["file"] != nil:
		put(body, "file.force", true)
	}
}

// describe returns what a namespace exports.
func describe(n *config.Namespace) (kind, export, size string) {
	switch {
	case n.Memory != nil:
		return "memory", "", n.Memory.Size.String()
	case n.Block != nil:
		return "block", string(n.Block.Path), ""
	case n.RBD != nil && n.RBD.Size > 0:
		return "rbd", n.RBD.Image, n.RBD.Size.String()
	case n.RBD != nil:
		return "rbd", n.RBD.Image, ""
	case n.File != nil && n.File.Size > 0:
		return "file", string(n.File.Path), n.File.Size.String()
	case n.File != nil:
		return "file", string(n.File.Path), ""
	}
	return "", "", ""
}

func listenerObject() *object[config.Listener] {
	return &object[config.Listener]{
		name: "listener", alias: "port", what: "listeners", key: "ID", keyField: "id", keyNumber: true, list: "listeners", fixed: []string{"ADDRESS"},
		head: []any{"ID", "ADDRESS", "TRANSPORT", "ANA GROUPS"},
		row: func(l *config.Listener) []any {
			var groups []string
			for _, g := range l.ANAGroups {
				groups = append(groups, fmt.Sprintf("%d %s", g.Group, g.State))
			}
			return []any{l.ID, l.Address, orElse(string(l.Transport), "default"), strings.Join(groups, ", ")}
		},
		id: func(l *config.Listener) string { return fmt.Sprint(l.ID) },
		extend: func(cmd *cobra.Command) func(map[string]any) error {
			address := cmd.Flags().String("address", "", "IP address and port; hosts that are connected through the listener are disconnected")
			if cmd.Name() == "add" {
				_ = cmd.Flags().MarkHidden("address")
			}
			return func(body map[string]any) error {
				if *address != "" {
					body["address"] = *address
				}
				return nil
			}
		},
	}
}

func hostObject() *object[config.Host] {
	return &object[config.Host]{
		name: "host", what: "hosts", key: "HOSTNQN", keyField: "nqn", within: true, list: "hosts",
		head: []any{"HOST", "ACCESS", "NAMESPACES", "KEY"},
		row: func(h *config.Host) []any {
			return []any{h.NQN, orElse(string(h.Access), "write"), strings.Join(rightsOf(h), ","), keyed(h)}
		},
		id: func(h *config.Host) string { return string(h.NQN) },
		extend: func(cmd *cobra.Command) func(map[string]any) error {
			rights := cmd.Flags().StringSlice("namespace", nil, "access to single namespaces, NSID=ACCESS, as in 1=read,2=none; replaces what the host has")
			return func(body map[string]any) (err error) {
				if cmd.Flags().Changed("namespace") {
					body["namespaces"], err = parseRights(*rights)
				}
				return err
			}
		},
	}
}

// rightsOf returns a host's rights to single namespaces, in the form of --namespace.
func rightsOf(h *config.Host) (rights []string) {
	for _, r := range h.Namespaces {
		rights = append(rights, fmt.Sprintf("%d=%s", r.NSID, r.Access))
	}
	return rights
}

func keyed(h *config.Host) string {
	switch {
	case h.ControllerKeyFile != "":
		return "both sides"
	case h.KeyFile != "":
		return "host"
	}
	return ""
}

func referralObject() *object[config.Referral] {
	return &object[config.Referral]{
		name: "referral", what: "referrals", key: "ADDRESS", keyField: "address", list: "referrals", noSet: true,
		head: []any{"ADDRESS", "TRANSPORT", "NQN"},
		row: func(x *config.Referral) []any {
			return []any{x.Address, orElse(string(x.Transport), "rdma"), orElse(string(x.NQN), "discovery")}
		},
		id: func(x *config.Referral) string { return x.Address.String() },
	}
}
