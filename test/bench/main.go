// Command bench compares the fabric with the layers below it and with other block servers, in one run. README.md
// explains its output.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"

	"golang.org/x/sys/unix"

	"github.com/nvmeof-go/nvmeof/test/bench/internal/child"
	"github.com/nvmeof-go/nvmeof/test/bench/internal/report"
)

func main() {
	if isChild(os.Args) {
		exit(child.Serve(os.Args[2]))
		return
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, unix.SIGTERM)
	defer stop()
	o, err := parseOptions(os.Args[1:], os.Stderr)
	if errors.Is(err, flag.ErrHelp) {
		return
	}
	if err == nil {
		err = run(ctx, o, os.Stdout, os.Stderr)
	}
	exit(err)
}

func isChild(args []string) bool { return len(args) == 3 && args[1] == child.Command }

func exit(err error) {
	if err != nil {
		fmt.Fprintln(os.Stderr, "bench:", err)
		os.Exit(1)
	}
}

// run measures, prints and stores what the options select.
func run(ctx context.Context, o options, out, progress io.Writer) error {
	before, err := o.before()
	if err != nil {
		return err
	}
	r, err := measure(ctx, o, progress)
	if err != nil {
		return err
	}
	if err := r.Table(out); err != nil {
		return err
	}
	if o.compare {
		if err := compare(out, r, before, o.history); err != nil {
			return err
		}
	}
	if o.json != "" {
		if err := writeJSON(o.json, r); err != nil {
			return err
		}
	}
	if o.record {
		return r.Append(o.history)
	}
	return nil
}

func compare(out io.Writer, r, before *report.Report, path string) error {
	if before == nil {
		_, err := fmt.Fprintf(out, "\n%s has no entry of a machine like this: nothing to compare with\n", path)
		return err
	}
	return r.Compare(out, before)
}

func writeJSON(path string, r *report.Report) (err error) {
	f, err := os.Create(path)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, f.Close()) }()
	return r.JSON(f)
}
