package administer

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"time"

	"github.com/spf13/cobra"

	"github.com/nvmeof-go/nvmeof/cmd/nvmeof/internal/failure"
	"github.com/nvmeof-go/nvmeof/nvmeof/control"
)

func newTrace() *cobra.Command {
	var r Remote
	var l limited
	var host, nqn, nsid, slower, format string
	cmd := &cobra.Command{Use: "trace", Short: "Show the commands of hosts as a running target completes them", Args: cobra.NoArgs,
		Long: `Show the commands of hosts as a running target completes them, one a line, with
how long each took: from the arrival of the command until its response was sent
and its data acknowledged. Of that, the time in the store and the time of the data
transfer are shown too. Commands that come faster than they can be printed are
left out and counted.`,
		Example: "  nvmeof trace --slower-than 5ms\n  nvmeof trace --host NQN --count 100 -o json",
		RunE: func(cmd *cobra.Command, _ []string) error {
			if format != "table" && format != "json" {
				return failure.Usagef("--output-format %s: want table or json%s", format, failure.DidYouMean(format, []string{"table", "json"}))
			}
			body, err := r.Stream(cmd.Context(), "/v1/trace", l.options("host", host, "nqn", nqn, "nsid", nsid, "slower-than", slower))
			if err != nil {
				return err
			}
			defer body.Close()
			return whileTaken(cmd.Context(), func() error {
				err := printTrace(cmd.OutOrStdout(), cmd.ErrOrStderr(), body, format == "json")
				if cmd.Context().Err() != nil {
					return nil // the user ended the trace
				}
				return err
			})
		}}
	cmd.Flags().StringVar(&host, "host", "", "only commands of the host with this NQN")
	cmd.Flags().StringVarP(&nqn, "nqn", "n", "", "only commands to this subsystem")
	cmd.Flags().StringVar(&nsid, "nsid", "", "only I/O commands to this namespace")
	cmd.Flags().StringVar(&slower, "slower-than", "", "only commands that took at least this time, as 5ms")
	cmd.Flags().StringVarP(&format, "output-format", "o", "table", "table, or json: one object a line")
	_ = cmd.RegisterFlagCompletionFunc("output-format", cobra.FixedCompletions([]string{"table", "json"}, cobra.ShellCompDirectiveNoFileComp))
	l.add(cmd, "commands")
	r.AddSocket(cmd)
	return cmd
}

const traceColumns = "%-15s %9s %9s %9s  %-8s %5v  %-22s %5s %-16s %s  %s\n"

// printTrace prints lines as they arrive.
func printTrace(out, errOut io.Writer, from io.Reader, asJSON bool) error {
	if !asJSON {
		fmt.Fprintf(out, traceColumns, "TIME", "LATENCY", "STORAGE", "FABRIC", "QUEUE", "CID", "COMMAND", "NSID", "LBA+BLOCKS", "STATUS", "HOST")
	}
	lines := bufio.NewScanner(from)
	for lines.Scan() {
		var c control.TracedCommand
		if err := json.Unmarshal(lines.Bytes(), &c); err != nil {
			return fmt.Errorf("cannot decode the target's answer: %w; does the target have another version?", err)
		}
		var err error
		switch {
		case c.Dropped > 0:
			fmt.Fprintf(errOut, "nvmeof: %d commands so far were not printed: the target completes them faster than they can be printed\n", c.Dropped)
		case asJSON:
			_, err = fmt.Fprintf(out, "%s\n", lines.Bytes())
		default:
			err = traceLine(out, &c)
		}
		if err != nil {
			return err
		}
	}
	return lines.Err()
}

func traceLine(out io.Writer, c *control.TracedCommand) error {
	nsid, at := "-", "-"
	if c.NSID != 0 {
		nsid = fmt.Sprint(uint32(c.NSID))
	}
	if c.Blocks != 0 {
		at = fmt.Sprintf("%d+%d", c.LBA, c.Blocks)
	}
	_, err := fmt.Fprintf(out, traceColumns, c.Time.Local().Format("15:04:05.000000"), short(c.Latency), short(c.Storage), short(c.Fabric),
		fmt.Sprintf("%d/%d", c.Controller, c.Queue), c.CID, c.Opcode, nsid, at, c.Status, string(c.Host))
	return err
}

// short formats a duration in few digits; none as a dash.
func short(ns int) string {
	d := time.Duration(ns)
	switch {
	case d == 0:
		return "-"
	case d < time.Millisecond:
		return fmt.Sprintf("%.1fµs", d.Seconds()*1e6)
	case d < time.Second:
		return fmt.Sprintf("%.2fms", d.Seconds()*1e3)
	}
	return fmt.Sprintf("%.2fs", d.Seconds())
}
