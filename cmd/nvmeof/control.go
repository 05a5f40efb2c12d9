package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"text/tabwriter"

	"github.com/spf13/cobra"

	"github.com/nvmeof-go/nvmeof/nvmeof/config"
	"github.com/nvmeof-go/nvmeof/nvmeof/control"
)

// A remote is the running target that a command is about.
type remote struct {
	socket string
	format string
	dryRun bool
	save   bool
}

// addSocket adds the flag that finds the target.
func (r *remote) addSocket(cmd *cobra.Command) {
	cmd.Flags().StringVar(&r.socket, "socket", defaultSocket(), "control socket of the target")
}

// addOutput adds the flag for the form of the output.
func (r *remote) addOutput(cmd *cobra.Command) {
	cmd.Flags().StringVarP(&r.format, "output-format", "o", "table", "table, json or yaml")
	_ = cmd.RegisterFlagCompletionFunc("output-format", cobra.FixedCompletions([]string{"table", "json", "yaml"}, cobra.ShellCompDirectiveNoFileComp))
}

// addEdit adds the flags of what changes something.
func (r *remote) addEdit(cmd *cobra.Command) {
	cmd.Flags().BoolVar(&r.dryRun, "dry-run", false, "only tell what would be done")
	cmd.Flags().BoolVar(&r.save, "save", false, "write the configuration file too, whose comments are lost")
}

// call makes a call. What the target refuses becomes the exit code that the same
// mistake has without it.
func (r *remote) call(ctx context.Context, method, path string, options []string, body []byte, answer any) error {
	c := control.NewClient(r.socket)
	defer c.Close()
	err := c.Do(ctx, method, path, options, body, answer)
	var refused *control.Error
	var lost *control.ConnectError
	switch {
	case errors.As(err, &refused) && refused.Code == control.CodeInvalid:
		return usageError{Err: err}
	case errors.As(err, &lost):
		return &connectError{Err: err}
	}
	return err
}

func (r *remote) get(ctx context.Context, path string, answer any) error {
	return r.call(ctx, "GET", path, nil, nil, answer)
}

// edit changes something, and shows what was done, or would be.
func (r *remote) edit(cmd *cobra.Command, method, path string, body any) error {
	var options []string
	if r.dryRun {
		options = append(options, "dry-run")
	}
	if r.save {
		options = append(options, "save")
	}
	var text []byte
	if body != nil {
		text = config.JSON(body)
	}
	var result control.Result
	if err := r.call(cmd.Context(), method, path, options, text, &result); err != nil {
		return err
	}
	showResult(cmd.OutOrStdout(), cmd.ErrOrStderr(), &result)
	return nil
}

func showResult(out, errOut io.Writer, r *control.Result) {
	for _, w := range r.Warnings {
		fmt.Fprintln(errOut, "warning:", w)
	}
	if len(r.Changes) == 0 {
		fmt.Fprintln(out, "nothing to change")
	}
	for _, c := range r.Changes {
		if r.DryRun {
			fmt.Fprint(out, "would ")
		}
		fmt.Fprintln(out, c.Text)
	}
	if r.Saved {
		fmt.Fprintln(out, "saved")
	}
}

// show prints a value in the form that was asked for; table makes rows of it.
func (r *remote) show(out io.Writer, value any, table func(w io.Writer)) error {
	switch r.format {
	case "json":
		_, err := out.Write(config.JSON(value))
		return err
	case "yaml":
		_, err := out.Write(config.YAML(value))
		return err
	case "table":
		w := tabwriter.NewWriter(out, 0, 8, 2, ' ', 0)
		table(w)
		return w.Flush()
	}
	return usage("--output-format %s: it is table, json or yaml%s", r.format, didYouMean(r.format, []string{"table", "json", "yaml"}))
}

// row prints cells; empty ones are a dash.
func row(w io.Writer, cells ...any) {
	texts := make([]string, len(cells))
	for i, c := range cells {
		if texts[i] = fmt.Sprint(c); texts[i] == "" {
			texts[i] = "-"
		}
	}
	fmt.Fprintln(w, strings.Join(texts, "\t"))
}
