package token

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"text/tabwriter"

	"github.com/spf13/cobra"

	"github.com/nvmeof-go/nvmeof/cmd/nvmeof/internal/failure"
	"github.com/nvmeof-go/nvmeof/internal/namedfile"
	"github.com/nvmeof-go/nvmeof/nvmeof/control"
)

// Command returns the command nvmeof token.
func Command() *cobra.Command {
	cmd := &cobra.Command{Use: "token", Short: "Create and revoke tokens for a target's API over TCP",
		Long: `Change the file of tokens that console.tokens of a target names (--console-tokens).
A running target rereads it. The file contains a hash of each token, not the token.`}
	cmd.AddCommand(newCreate(), newList(), newRevoke())
	return cmd
}

// addFile adds the flag --file, which all commands require.
func addFile(cmd *cobra.Command, file *string) {
	cmd.Flags().StringVar(file, "file", "", "file of tokens (required)")
}

func needFile(file string) error {
	if file == "" {
		return failure.Usagef("--file is missing: the file of tokens, as in --file /etc/nvmeof/tokens")
	}
	return nil
}

func newCreate() *cobra.Command {
	var file, role string
	cmd := &cobra.Command{Use: "create NAME", Short: "Create a token and print it: it is not shown again", Args: cobra.ExactArgs(1),
		Example: "  nvmeof token create alice --role operate --file /etc/nvmeof/tokens",
		RunE: func(cmd *cobra.Command, args []string) error {
			e := Entry{Name: args[0]}
			if err := e.Role.UnmarshalText([]byte(role)); err != nil {
				return failure.Usagef("--role: %v", err)
			}
			if err := checkName(e.Name); err != nil {
				return failure.Usagef("NAME: %v", err)
			}
			token, hash := New()
			e.Hash = hash
			err := change(cmd.Context(), file, true, func(l List) (List, error) {
				switch {
				case slices.ContainsFunc(l, func(o Entry) bool { return o.Name == e.Name }):
					return nil, fmt.Errorf("token %s exists already; revoke it first, or choose another name", e.Name)
				case len(l) == maxEntries:
					return nil, fmt.Errorf("%s has %d tokens, which is the maximum", file, maxEntries)
				}
				return append(l, e), nil
			})
			if err != nil {
				return err
			}
			if _, err = fmt.Fprintln(cmd.OutOrStdout(), token); err != nil { // the token was not shown, so it must not stay valid
				err = errors.Join(err, change(cmd.Context(), file, false, func(l List) (List, error) {
					return slices.DeleteFunc(l, func(o Entry) bool { return o == e }), nil
				}))
			}
			return err
		}}
	addFile(cmd, &file)
	cmd.Flags().StringVar(&role, "role", string(control.RoleRead), "read, operate (may also change namespaces and hosts) or admin (may do everything)")
	_ = cmd.RegisterFlagCompletionFunc("role", cobra.FixedCompletions([]string{"read", "operate", "admin"}, cobra.ShellCompDirectiveNoFileComp))
	return cmd
}

func newList() *cobra.Command {
	var file, format string
	cmd := &cobra.Command{Use: "list", Short: "List the names and roles of tokens", Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if err := needFile(file); err != nil {
				return err
			}
			l, err := Read(cmd.Context(), file)
			if err != nil {
				return err
			}
			switch format {
			case "table":
			case "json":
				return listJSON(cmd, l)
			default:
				return failure.Usagef("--output-format %s: want table or json%s", format, failure.DidYouMean(format, []string{"table", "json"}))
			}
			w := tabwriter.NewWriter(cmd.OutOrStdout(), 0, 0, 2, ' ', 0)
			fmt.Fprintln(w, "NAME\tROLE")
			for _, e := range l {
				fmt.Fprintf(w, "%s\t%s\n", e.Name, e.Role)
			}
			return w.Flush()
		}}
	addFile(cmd, &file)
	cmd.Flags().StringVarP(&format, "output-format", "o", "table", "table or json")
	_ = cmd.RegisterFlagCompletionFunc("output-format", cobra.FixedCompletions([]string{"table", "json"}, cobra.ShellCompDirectiveNoFileComp))
	return cmd
}

// listJSON prints the fields of the table, without the hashes.
func listJSON(cmd *cobra.Command, l List) error {
	type shown struct {
		Name string       `json:"name"`
		Role control.Role `json:"role"`
	}
	all := make([]shown, len(l)) // an empty list rather than null
	for i, e := range l {
		all[i] = shown{e.Name, e.Role}
	}
	w := json.NewEncoder(cmd.OutOrStdout())
	w.SetIndent("", "  ")
	return w.Encode(all)
}

func newRevoke() *cobra.Command {
	var file string
	cmd := &cobra.Command{Use: "revoke NAME", Short: "Remove a token: a running target refuses it within a second", Args: cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			err := change(cmd.Context(), file, false, func(l List) (List, error) {
				i := slices.IndexFunc(l, func(e Entry) bool { return e.Name == args[0] })
				if i < 0 {
					return nil, fmt.Errorf("%s has no token %q; see nvmeof token list", file, args[0])
				}
				return slices.Delete(l, i, i+1), nil
			})
			if err != nil {
				return err
			}
			_, err = fmt.Fprintf(cmd.OutOrStdout(), "revoke token %s\n", args[0])
			return err
		}}
	addFile(cmd, &file)
	return cmd
}

// change applies f to the tokens of a file, which create makes if it does not exist.
func change(ctx context.Context, file string, create bool, f func(List) (List, error)) error {
	if err := needFile(file); err != nil {
		return err
	}
	unlock, err := lock(file, create)
	if err != nil {
		return err
	}
	defer unlock()
	l, err := Read(ctx, file)
	if err != nil {
		return err
	}
	if l, err = f(l); err != nil {
		return err
	}
	if err := namedfile.Replace(file, l.text(), namedfile.Options{Secret: true}); err != nil {
		return fmt.Errorf("tokens: %w", err)
	}
	return nil
}
