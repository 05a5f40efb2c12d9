package administer

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/nvmeof-go/nvmeof/cmd/nvmeof/internal/failure"
	"github.com/nvmeof-go/nvmeof/nvmeof"
	"github.com/nvmeof-go/nvmeof/nvmeof/control"
	"github.com/nvmeof-go/nvmeof/nvmeof/events"
)

func newEvents() *cobra.Command {
	w := watch{out: (*watch).line}
	var since string
	cmd := &cobra.Command{Use: "events", Short: "Show the events of a running target: connects and disconnects, refusals, changes, failures of stores", Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) (err error) {
			if w.since, err = parseSince(since, time.Now()); err != nil {
				return err
			}
			return w.run(cmd)
		}}
	cmd.Long = `Show the events of a running target, the oldest first. The target keeps the last
1280 events. They survive a restart if it has --events FILE, or events.file in its
configuration. Equal refusals and connects within ten seconds are one line with a
count and the time of the last of them.

With --follow it continues until interrupted, also across restarts of the target;
with -o json each line is then one object. A count is printed when its ten seconds
are over, possibly after later events. With --follow, -o json and -o yaml events
are in the order of their numbers.`
	cmd.Flags().BoolVarP(&w.follow, "follow", "f", false, "continue with new events, until interrupted")
	cmd.Flags().StringVar(&since, "since", "", "only events since then: a duration, as 2h, or a time, as 2026-11-23T20:00:00Z")
	w.AddSocket(cmd)
	w.AddOutput(cmd)
	return cmd
}

// parseSince parses the value of --since.
func parseSince(s string, now time.Time) (time.Time, error) {
	if s == "" {
		return time.Time{}, nil
	}
	if d, err := time.ParseDuration(s); err == nil && d >= 0 {
		return now.Add(-d), nil
	}
	t, err := time.Parse(time.RFC3339, s)
	if err != nil {
		return t, failure.Usagef("--since %s: want a duration, as 2h, or a time, as 2026-11-23T20:00:00Z", s)
	}
	return t, nil
}

// A watch reads the events of a target.
type watch struct {
	Remote
	since  time.Time
	follow bool

	log   string // the log to which after belongs
	after uint64
	begun bool // the target has answered once
	out   func(*watch, io.Writer, *events.Event) error
}

// run shows the past events, and with --follow also new ones.
func (w *watch) run(cmd *cobra.Command) error {
	socket, err := w.Find()
	if err != nil {
		return err
	}
	if !w.follow {
		return w.showAll(cmd)
	}
	switch w.format {
	case "json":
		w.out = (*watch).object
	case "table":
	default:
		return failure.Usagef("--output-format %s: want table or json with --follow", w.format)
	}
	c := control.NewClient(socket)
	defer c.Close()
	return whileTaken(cmd.Context(), func() error { return w.showNew(cmd, c) })
}

// showNew shows new events.
func (w *watch) showNew(cmd *cobra.Command, c *control.Client) error {
	for {
		list, err := w.next(cmd, c)
		if cmd.Context().Err() != nil {
			return nil // the user ended the command
		}
		if err != nil {
			return err
		}
		for i := range list {
			if err := w.out(w, cmd.OutOrStdout(), &list[i]); err != nil {
				return err
			}
		}
	}
}

// showAll shows the past events.
func (w *watch) showAll(cmd *cobra.Command) error {
	all := []events.Event{}
	for {
		var page control.Events
		if err := w.Call(cmd.Context(), "GET", "/v1/events", []string{fmt.Sprint("after=", w.after), "log=" + w.log}, nil, &page); err != nil {
			return err
		}
		all = append(all, w.take(&page)...)
		if len(page.Events) == 0 || w.after >= page.Last {
			break
		}
	}
	return w.Show(cmd.OutOrStdout(), all, func(out io.Writer) {
		slices.SortStableFunc(all, byTime)
		for i := range all {
			_ = w.line(out, &all[i])
		}
	})
}

// byTime orders events for people. An event that counts equal ones has the time of the last of them, and comes after
// other events that happened until then.
func byTime(a, b events.Event) int { return a.Time.Compare(b.Time) }

// take records the position that an answer reaches, and returns its events that are to be shown.
func (w *watch) take(page *control.Events) (some []events.Event) {
	w.log = page.Log
	for _, e := range page.Events {
		w.after = e.Seq
		if !e.Time.Before(w.since) {
			some = append(some, e)
		}
	}
	return some
}

// awayTime is the delay between attempts to reach a target that does not run.
const awayTime = time.Second

// next waits for new events, and for the target if it has ended.
func (w *watch) next(cmd *cobra.Command, c *control.Client) ([]events.Event, error) {
	ctx := cmd.Context()
	for quiet := false; ; quiet = true {
		var page control.Events
		err := c.Do(ctx, "GET", "/v1/events", []string{fmt.Sprint("after=", w.after), "log=" + w.log, "wait"}, nil, &page)
		if err == nil {
			if gone := page.Log == w.log && page.Replaced > 0; gone {
				fmt.Fprintf(cmd.ErrOrStderr(), "nvmeof: %d events were overwritten before they could be shown\n", page.Replaced)
			}
			w.begun = true
			return w.take(&page), nil
		}
		var lost *control.ConnectError
		if !errors.As(err, &lost) {
			return nil, err
		}
		if !w.begun {
			return nil, &failure.Connect{Err: err}
		}
		if !quiet {
			fmt.Fprintln(cmd.ErrOrStderr(), "nvmeof: the target has ended; waiting for its restart")
		}
		if err := pause(ctx, awayTime); err != nil {
			return nil, err
		}
	}
}

func pause(ctx context.Context, d time.Duration) error {
	select {
	case <-ctx.Done():
		return context.Cause(ctx)
	case <-time.After(d):
		return nil
	}
}

// line prints an event for people.
func (w *watch) line(out io.Writer, e *events.Event) error {
	var b strings.Builder
	fmt.Fprintf(&b, "%s %-7s %-11s %s", e.Time.Local().Format("2006-01-02T15:04:05.000Z07:00"), e.Severity, e.Kind, e.Text)
	for _, x := range []struct{ name, value string }{{"host", e.Host}, {"address", e.Address}, {"subsystem", e.Subsystem}} {
		if x.value != "" {
			b.WriteString(" " + x.name + "=" + nvmeof.Printable(x.value)) // a host's name may contain spaces and imitate the fields that follow
		}
	}
	if e.NSID != 0 {
		fmt.Fprintf(&b, " nsid=%d", e.NSID)
	}
	if e.Count > 0 {
		fmt.Fprintf(&b, " (%d more)", e.Count)
	}
	_, err := fmt.Fprintln(out, b.String())
	return err
}

// object prints an event as a line of JSON.
func (w *watch) object(out io.Writer, e *events.Event) error {
	var b bytes.Buffer
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	if err := enc.Encode(e); err != nil {
		return err
	}
	_, err := out.Write(b.Bytes())
	return err
}
