// Package manual makes manual pages of commands: one for each, with the text of its --help.
//
// cobra/doc is not used, since it expects the texts of commands in Markdown.
package manual

import (
	"cmp"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/spf13/cobra"
)

// Command returns the command nvmeof manual, which is for packagers.
func Command(release string) *cobra.Command {
	return &cobra.Command{
		Use:    "manual DIR",
		Short:  "Write a manual page for each command into a directory",
		Hidden: true,
		Args:   cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := os.MkdirAll(args[0], 0o755); err != nil {
				return err
			}
			for _, c := range below(cmd.Root()) {
				if err := os.WriteFile(filepath.Join(args[0], name(c)+".1"), []byte(page(c, release)), 0o644); err != nil {
					return err
				}
			}
			return nil
		},
	}
}

// below returns a command and all commands below it that have a page.
func below(c *cobra.Command) []*cobra.Command {
	all := []*cobra.Command{c}
	for _, sub := range verbs(c) {
		all = append(all, below(sub)...)
	}
	return all
}

// verbs returns the subcommands that the help of a command lists.
func verbs(c *cobra.Command) (all []*cobra.Command) {
	for _, sub := range c.Commands() {
		if sub.IsAvailableCommand() && sub.Name() != "help" {
			all = append(all, sub)
		}
	}
	return all
}

// name returns the name of a command's page.
func name(c *cobra.Command) string { return strings.ReplaceAll(c.CommandPath(), " ", "-") }

// page returns the manual page of a command, in the macros of man(7).
func page(c *cobra.Command, release string) string {
	c.InitDefaultHelpFlag()
	c.InitDefaultVersionFlag()
	var r roff
	r.macro("TH", strings.ToUpper(name(c)), "1", "", "nvmeof "+release, "NVMe over Fabrics")
	r.macro("SH", "NAME")
	r.text(name(c) + " - " + c.Short)
	r.macro("SH", "SYNOPSIS")
	if c.Runnable() {
		r.text(c.UseLine())
	}
	if len(verbs(c)) > 0 {
		r.macro("PP")
		r.text(c.CommandPath() + " COMMAND ...")
	}
	r.macro("SH", "DESCRIPTION")
	r.paragraphs(cmp.Or(c.Long, c.Short+"."))
	r.commands(c)
	r.options("OPTIONS", c.NonInheritedFlags())
	r.options("INHERITED OPTIONS", c.InheritedFlags())
	if c.Example != "" {
		r.macro("SH", "EXAMPLES")
		r.verbatim(c.Example)
	}
	r.others(c)
	return r.b.String()
}

// commands lists the subcommands of a command.
func (r *roff) commands(c *cobra.Command) {
	for i, sub := range verbs(c) {
		if i == 0 {
			r.macro("SH", "COMMANDS")
		}
		r.macro("TP")
		r.macro("B", sub.Name())
		r.text(sub.Short)
	}
}

// others lists the related pages: of the parent, of the subcommands, and for a command without subcommands of its
// siblings.
func (r *roff) others(c *cobra.Command) {
	related := verbs(c)
	if c.HasParent() && len(related) == 0 && c.Parent().HasParent() {
		related = slices.DeleteFunc(verbs(c.Parent()), func(s *cobra.Command) bool { return s == c })
	}
	if c.HasParent() {
		related = append([]*cobra.Command{c.Parent()}, related...)
	}
	var pages []string
	for _, other := range related {
		pages = append(pages, fmt.Sprintf("%s(1)", name(other)))
	}
	r.macro("SH", "SEE ALSO")
	r.text(strings.Join(pages, ", "))
}
