package administer

import (
	"context"
	"fmt"
	"io"

	"github.com/spf13/cobra"

	"github.com/nvmeof-go/nvmeof/cmd/nvmeof/internal/failure"
	"github.com/nvmeof-go/nvmeof/nvmeof/control"
)

// An object is a kind of object of a running target, with its names on the command line.
type object[T any] struct {
	name, alias, what string
	key               string // its name in the usage: NQN, ID
	within            bool   // it belongs to a subsystem, which --nqn names
	list              string // last part of the route
	keyField          string
	head              []any
	row               func(*T) []any
	// rows replaces row if that needs more than the object. note returns additional text for show.
	rows func(ctx context.Context, v *verb) (func(*T) []any, error)
	// facts returns an object's entry in a JSON or YAML list, if that needs more than the object.
	facts     func(ctx context.Context, v *verb) (func(*T) any, error)
	note      func(ctx context.Context, v *verb, x *T) (string, error)
	id        func(*T) string
	keyNumber bool
	// fixed are the fields that add takes as arguments after the key.
	fixed []string
	// extend adds further flags. It returns a function that stores their values in the object.
	extend func(cmd *cobra.Command) func(map[string]any) error
	// complete adds to the body of set what must be read from the target.
	complete func(ctx context.Context, v *verb, key string, body map[string]any) error
	noSet    bool
}

// A verb is a subcommand under construction.
type verb struct {
	Remote
	nqn string
}

// path returns the route of the list, or of one object in it.
func (o *object[T]) path(v *verb, key ...string) string {
	parts := []string{o.list}
	if o.within {
		parts = []string{"subsystems", v.nqn, o.list}
	}
	return control.Path(append(parts, key...)...)
}

func (o *object[T]) command() *cobra.Command {
	cmd := &cobra.Command{Use: o.name, Short: "Show and change the " + o.what + " of a running target"}
	if o.alias != "" {
		cmd.Aliases = []string{o.alias}
	}
	cmd.AddCommand(o.listCommand(), o.addCommand(), o.removeCommand())
	if !o.noSet {
		cmd.AddCommand(o.showCommand(), o.setCommand())
	}
	return cmd
}

// begin adds what all verbs have in common.
func (o *object[T]) begin(v *verb, cmd *cobra.Command) *cobra.Command {
	v.AddSocket(cmd)
	if o.within {
		cmd.Flags().StringVarP(&v.nqn, "nqn", "n", "", "name of the subsystem")
		_ = cmd.RegisterFlagCompletionFunc("nqn", func(cmd *cobra.Command, _ []string, _ string) ([]string, cobra.ShellCompDirective) {
			return subsystemNames(cmd.Context(), &v.Remote), cobra.ShellCompDirectiveNoFileComp
		})
	}
	cmd.ValidArgsFunction = func(cmd *cobra.Command, args []string, _ string) ([]string, cobra.ShellCompDirective) {
		if len(args) > 0 || cmd.Name() == "add" || cmd.Name() == "list" {
			return nil, cobra.ShellCompDirectiveNoFileComp
		}
		return o.names(cmd.Context(), v), cobra.ShellCompDirectiveNoFileComp
	}
	return cmd
}

// names returns the completions of the key.
func (o *object[T]) names(ctx context.Context, v *verb) (names []string) {
	var all []*T
	if v.Get(ctx, o.path(v), &all) != nil {
		return nil
	}
	for _, x := range all {
		names = append(names, o.id(x))
	}
	return names
}

func (o *object[T]) needNQN(v *verb) error {
	if o.within {
		return needNQN(v.nqn)
	}
	return nil
}

// needNQN returns an error if a command about an object of a subsystem has no --nqn.
func needNQN(nqn string) error {
	if nqn == "" {
		return failure.Usagef("--nqn is missing: the subsystem; see nvmeof subsystem list")
	}
	return nil
}

func (o *object[T]) listCommand() *cobra.Command {
	v := new(verb)
	cmd := &cobra.Command{Use: "list", Short: "List the " + o.what, Args: cobra.NoArgs}
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		if err := o.needNQN(v); err != nil {
			return err
		}
		var all []*T
		if err := v.Get(cmd.Context(), o.path(v), &all); err != nil {
			return err
		}
		cells := o.row
		if o.rows != nil && v.format == "table" {
			var err error
			if cells, err = o.rows(cmd.Context(), v); err != nil {
				return err
			}
		}
		if o.facts != nil && v.format != "table" {
			facts, err := o.facts(cmd.Context(), v)
			if err != nil {
				return err
			}
			with := make([]any, len(all))
			for i, x := range all {
				with[i] = facts(x)
			}
			return v.Show(cmd.OutOrStdout(), with, nil)
		}
		return v.Show(cmd.OutOrStdout(), all, func(w io.Writer) {
			row(w, o.head...)
			for _, x := range all {
				row(w, cells(x)...)
			}
		})
	}
	v.AddOutput(cmd)
	return o.begin(v, cmd)
}

func (o *object[T]) showCommand() *cobra.Command {
	v := new(verb)
	cmd := &cobra.Command{Use: "show " + o.key, Short: "Show a " + o.name + " with all settings", Args: cobra.ExactArgs(1)}
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		if err := o.needNQN(v); err != nil {
			return err
		}
		x := new(T)
		if err := v.Get(cmd.Context(), o.path(v, args[0]), x); err != nil {
			return err
		}
		var note string
		if v.format == "table" {
			v.format = "yaml"
			if o.note != nil {
				var err error
				if note, err = o.note(cmd.Context(), v, x); err != nil {
					return err
				}
			}
		}
		err := v.Show(cmd.OutOrStdout(), x, nil)
		fmt.Fprint(cmd.OutOrStdout(), note)
		return err
	}
	v.AddOutput(cmd)
	return o.begin(v, cmd)
}

func (o *object[T]) addCommand() *cobra.Command {
	v := new(verb)
	use := "add " + o.key
	for _, f := range o.fixed {
		use += " " + f
	}
	cmd := &cobra.Command{Use: use, Short: "Add a " + o.name, Args: cobra.ExactArgs(1 + len(o.fixed))}
	build := o.builder(cmd)
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		if err := o.needNQN(v); err != nil {
			return err
		}
		body, err := build()
		if err != nil {
			return err
		}
		body[o.keyField] = args[0]
		if o.keyNumber {
			if body[o.keyField], err = number(o.key, args[0]); err != nil {
				return failure.Usagef("%s %s: want a number", o.key, args[0])
			}
		}
		for i, f := range o.fixed {
			body[lower(f)] = args[1+i]
		}
		return v.Edit(cmd, "POST", o.path(v), body)
	}
	v.AddEdit(cmd)
	return o.begin(v, cmd)
}

func (o *object[T]) setCommand() *cobra.Command {
	v := new(verb)
	cmd := &cobra.Command{Use: "set " + o.key, Short: "Change a " + o.name + "; the value default resets a setting, =false a boolean one", Args: cobra.ExactArgs(1)}
	build := o.builder(cmd)
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		if err := o.needNQN(v); err != nil {
			return err
		}
		body, err := build()
		if err != nil {
			return err
		}
		if len(body) == 0 {
			return failure.Usagef("nothing to set: see nvmeof %s set --help", o.name)
		}
		if o.complete != nil {
			if err := o.complete(cmd.Context(), v, args[0], body); err != nil {
				return err
			}
		}
		return v.Edit(cmd, "PATCH", o.path(v, args[0]), body)
	}
	v.AddEdit(cmd)
	return o.begin(v, cmd)
}

// builder adds the flags of the fields.
func (o *object[T]) builder(cmd *cobra.Command) func() (map[string]any, error) {
	var part T
	set := addFields(cmd, part, "force") // --force belongs to the change
	var more func(map[string]any) error
	if o.extend != nil {
		more = o.extend(cmd)
	}
	return func() (map[string]any, error) {
		body, err := set.object()
		if err == nil && more != nil {
			err = more(body)
		}
		return body, err
	}
}

func (o *object[T]) removeCommand() *cobra.Command {
	v := new(verb)
	cmd := &cobra.Command{Use: "remove " + o.key, Short: "Remove a " + o.name, Args: cobra.ExactArgs(1)}
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		if err := o.needNQN(v); err != nil {
			return err
		}
		return v.Edit(cmd, "DELETE", o.path(v, args[0]), nil)
	}
	v.AddEdit(cmd)
	return o.begin(v, cmd)
}
