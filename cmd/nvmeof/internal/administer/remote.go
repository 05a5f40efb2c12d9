package administer

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/nvmeof-go/nvmeof/cmd/nvmeof/internal/failure"
	"github.com/nvmeof-go/nvmeof/nvmeof"
	"github.com/nvmeof-go/nvmeof/nvmeof/config"
	"github.com/nvmeof-go/nvmeof/nvmeof/control"
)

// A Remote is the running target that a command addresses.
type Remote struct {
	socket string
	cmd    *cobra.Command // the command with the --socket flag
	format string
	dryRun bool
	save   saving
	force  bool
}

// AddSocket adds the flag --socket.
func (r *Remote) AddSocket(cmd *cobra.Command) {
	r.cmd = cmd
	cmd.Flags().StringVar(&r.socket, "socket", DefaultSocket(), "control socket of the target; if not given, that of the only running target is found")
}

// A saving is the value of --save: whether to save, and to which file if not the one with which the target was
// started.
type saving struct {
	on   bool
	file string
}

func (s *saving) Set(text string) (err error) {
	switch text {
	case "true", "false":
		*s = saving{on: text == "true"}
		return nil
	case "":
		return errors.New("want the name of a file")
	}
	s.on = true
	s.file, err = filepath.Abs(text)
	return err
}

func (s *saving) String() string { return "" }

// Type returns the type of flags with an optional value, for which the usage shows no value.
func (*saving) Type() string { return "bool" }

// JoinSave rewrites "--save FILE" to "--save=FILE". A flag with an optional value does not take the next word: after a
// plain --save that is an argument of the command. JoinSave treats it as the file's name if the command would
// otherwise have too many arguments, and has the right number without it.
func JoinSave(root *cobra.Command, args []string) []string {
	for i := 0; i+1 < len(args) && args[i] != "--"; i++ {
		if args[i] != "--save" || strings.HasPrefix(args[i+1], "-") {
			continue
		}
		joined := slices.Replace(slices.Clone(args), i, i+2, "--save="+args[i+1])
		if !takes(root, args) && takes(root, joined) {
			return joined
		}
	}
	return args
}

// takes reports whether a command line has the number of arguments that its command takes.
func takes(root *cobra.Command, args []string) bool {
	cmd, rest, err := root.Find(args)
	if err != nil || cmd.Flags().Lookup("save") == nil || cmd.Args == nil {
		return false
	}
	flags := cmd.Flags()
	if err := flags.ParseAll(rest, func(*pflag.Flag, string) error { return nil }); err != nil { // sets none of the flags
		return false
	}
	return cmd.Args(cmd, flags.Args()) == nil
}

// AddOutput adds the flag for the output format.
func (r *Remote) AddOutput(cmd *cobra.Command) {
	cmd.Flags().StringVarP(&r.format, "output-format", "o", "table", "table, json or yaml")
	_ = cmd.RegisterFlagCompletionFunc("output-format", cobra.FixedCompletions([]string{"table", "json", "yaml"}, cobra.ShellCompDirectiveNoFileComp))
}

// AddEdit adds the flags of commands that change something.
func (r *Remote) AddEdit(cmd *cobra.Command) {
	cmd.Flags().BoolVar(&r.dryRun, "dry-run", false, "only print what would be done")
	cmd.Flags().BoolVar(&r.force, "force", false, "allow changes that destroy data of memory namespaces, changes by apply that connected hosts notice, and files or devices that are in use")
	cmd.Flags().Var(&r.save, "save", "also change the configuration file, whose comments are kept; --save FILE for a target that was started without one")
	cmd.Flags().Lookup("save").NoOptDefVal = "true"
}

// Forced reports whether --force was given.
func (r *Remote) Forced() bool { return r.force }

// silenceTime is how long a target may take to answer before the user is told.
const silenceTime = 2 * time.Second

// Call makes a call of the API. A request that the target rejects as invalid becomes a usage error, so that it has the
// same exit code as when the command itself finds the mistake.
func (r *Remote) Call(ctx context.Context, method, path string, options []string, body []byte, answer any) error {
	return r.ask(ctx, method, func(c *control.Client) error { return c.Do(ctx, method, path, options, body, answer) })
}

// Stream makes a call whose response is a stream. The caller must close it.
func (r *Remote) Stream(ctx context.Context, path string, options []string) (body io.ReadCloser, err error) {
	err = r.ask(ctx, "GET", func(c *control.Client) error {
		body, err = c.Stream(ctx, path, options)
		return err
	})
	if err != nil {
		return nil, err
	}
	return followed{body}, nil
}

var errGone = errors.New("the process has ended; data that it had not sent is missing")

// followed is a stream that replaces the error of an unexpected end by one that says that the target has gone.
type followed struct{ io.ReadCloser }

func (f followed) Read(b []byte) (int, error) {
	n, err := f.ReadCloser.Read(b)
	if errors.Is(err, io.ErrUnexpectedEOF) {
		err = errGone
	}
	return n, err
}

func (r *Remote) ask(ctx context.Context, method string, do func(*control.Client) error) error {
	socket, err := r.Find()
	if err != nil {
		return err
	}
	c := control.NewClient(socket)
	defer c.Close()
	late := time.AfterFunc(silenceTime, func() { // at most until the answer
		fmt.Fprintf(r.cmd.ErrOrStderr(), "nvmeof: the target at %s has not answered for %v; still waiting\n", socket, silenceTime)
	})
	err = do(c)
	late.Stop()
	var refused *control.Error
	var lost *control.ConnectError
	switch {
	case errors.As(err, &refused) && refused.Code == control.CodeInvalid:
		return failure.Usagef("%s", unplaced(err.Error()))
	case refused != nil:
		refused.Message = failure.RemedyAtTarget(refused.Message)
	case errors.As(err, &lost):
		if method != "GET" && (errors.Is(err, io.EOF) || errors.Is(err, syscall.ECONNRESET)) {
			err = fmt.Errorf("%w: it ended before it answered, and may have made the change", err)
		}
		return &failure.Connect{Err: err}
	case err != nil && ctx.Err() != nil && method != "GET":
		return fmt.Errorf("%w: the target may have made the change, or may still make it: see nvmeof ls", err)
	}
	return err
}

// unplaced removes lines and columns from the text of an error about a request. They refer to a body made from flags,
// or from a document that was validated with positions of its own.
func unplaced(text string) string {
	lines := strings.Split(text, "\n")
	for i, l := range lines {
		var line, column int
		at, rest, _ := strings.Cut(l, ": ")
		if n, _ := fmt.Sscanf(at, "%d:%d", &line, &column); n == 2 {
			lines[i] = rest
		}
	}
	return strings.Join(lines, "\n")
}

// Get reads an object.
func (r *Remote) Get(ctx context.Context, path string, answer any) error {
	return r.Call(ctx, "GET", path, nil, nil, answer)
}

// Edit changes something, and shows what was done, or with --dry-run what would be.
func (r *Remote) Edit(cmd *cobra.Command, method, path string, body any) error {
	var options []string
	if r.dryRun {
		options = append(options, "dry-run")
	}
	if r.force {
		options = append(options, "force")
	}
	if r.save.on {
		options = append(options, "save")
	}
	if r.save.file != "" {
		options = append(options, "file="+r.save.file)
	}
	var text []byte
	if body != nil {
		text = config.JSON(body)
	}
	var result control.Result
	err := r.Call(cmd.Context(), method, path, options, text, &result)
	var refused *control.Error
	switch {
	case errors.As(err, &refused) && refused.Plan != nil: // a dry run shows the plan, and that it is rejected
		result = *refused.Plan
	case err != nil:
		return err
	}
	showResult(cmd.OutOrStdout(), cmd.ErrOrStderr(), &result)
	return err
}

// Save asks the target to write its configuration file, or the named file.
func (r *Remote) Save(cmd *cobra.Command, file string) error {
	var result control.Result
	var options []string
	if file != "" {
		path, err := filepath.Abs(file)
		if err != nil {
			return err
		}
		options = []string{"file=" + path}
	}
	err := r.Call(cmd.Context(), "POST", "/v1/config/save", options, nil, &result)
	for _, w := range result.Warnings {
		fmt.Fprintln(cmd.ErrOrStderr(), "warning:", w)
	}
	switch {
	case err != nil:
		return err
	case file != "":
		_, err = fmt.Fprintln(cmd.OutOrStdout(), "saved to", nvmeof.Visible(file))
	default: // as with --save
		_, err = fmt.Fprintln(cmd.OutOrStdout(), "saved")
	}
	return err
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

// Show prints a value in the format of -o; table prints it as rows.
func (r *Remote) Show(out io.Writer, value any, table func(w io.Writer)) error {
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
	return failure.Usagef("--output-format %s: want table, json or yaml%s", r.format, failure.DidYouMean(r.format, []string{"table", "json", "yaml"}))
}

// row prints cells; an empty one is printed as a dash.
func row(w io.Writer, cells ...any) {
	texts := make([]string, len(cells))
	for i, c := range cells {
		if name, ok := c.(nvmeof.NQN); ok {
			c = string(name) // never quoted
		}
		if texts[i] = fmt.Sprint(c); texts[i] == "" {
			texts[i] = "-"
		}
	}
	fmt.Fprintln(w, strings.Join(texts, "\t"))
}

// DefaultSocket returns the default control socket of this user's target.
func DefaultSocket() string { return control.DefaultSocket(os.Getenv, os.Getuid()) }
