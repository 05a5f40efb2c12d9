package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/spf13/cobra"

	"github.com/nvmeof-go/nvmeof/nvmeof/bench"
	"github.com/nvmeof-go/nvmeof/nvmeof/host"
)

// load are the flags of bench, with fio's names.
type load struct {
	connection
	nsid    uint32
	rw      string
	bs      string
	iodepth int
	runtime time.Duration
	ramp    time.Duration
	size    string
	verify  bool
	format  string
}

func newBench() *cobra.Command {
	var l load
	cmd := &cobra.Command{
		Use:   "bench -t rdma -a ADDR -n NQN [--rw randread] [--bs 4k] [--iodepth 1]",
		Short: "Measure IOPS, throughput and latency of a namespace",
		Long: `Keeps a number of requests in flight on one I/O queue and times each. The
patterns randwrite and write overwrite what the namespace holds.`,
		Example: "  nvmeof bench -t rdma -a 192.0.2.1 -n NQN --rw randread --bs 4k --iodepth 32 --runtime 5s",
		Args:    cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			job, err := l.job()
			if err != nil {
				return err
			}
			print, err := pick(l.format, map[string]func(*bench.Result, io.Writer) error{
				"table": func(r *bench.Result, w io.Writer) error { return r.Table(w) },
				"json":  func(r *bench.Result, w io.Writer) error { return r.JSON(w, "bench", version()) },
			})
			if err != nil {
				return err
			}
			return l.connected(cmd, func(ctx context.Context, c *host.Controller) error {
				r, err := l.run(ctx, c, job, progressLine(cmd.ErrOrStderr(), job.Pattern.String()))
				if err != nil {
					return err
				}
				return print(r, cmd.OutOrStdout())
			})
		},
	}
	l.addFlags(cmd)
	addNamespaceFlag(cmd, &l.nsid)
	flags := cmd.Flags()
	flags.StringVar(&l.rw, "rw", "randread", "randread, randwrite, read or write")
	flags.StringVar(&l.bs, "bs", "4k", "bytes of each request")
	flags.IntVar(&l.iodepth, "iodepth", 1, "requests in flight")
	flags.DurationVar(&l.runtime, "runtime", 5*time.Second, "how long to measure")
	flags.DurationVar(&l.ramp, "ramp-time", 200*time.Millisecond, "how long to run before measuring")
	flags.StringVar(&l.size, "size", "", "use the first SIZE bytes of the namespace (default: all)")
	flags.BoolVar(&l.verify, "verify", false, "read back what was written, and compare")
	flags.StringVarP(&l.format, "output-format", "o", "table", "output format: table|json")
	return cmd
}

func (l *load) job() (bench.Job, error) {
	j := bench.Job{Depth: l.iodepth, Runtime: l.runtime, Ramp: l.ramp, Verify: l.verify}
	pattern, err := bench.ParsePattern(l.rw)
	if err != nil {
		return j, usage("--rw %v", err)
	}
	j.Pattern = pattern
	bs, err := parseSize(l.bs)
	if err != nil {
		return j, usage("--bs: %v", err)
	}
	if bs > maxRequest {
		return j, usage("--bs %s: at most 16 MiB", l.bs)
	}
	j.BlockSize = int(bs)
	if l.size != "" {
		if j.Size, err = parseSize(l.size); err != nil {
			return j, usage("--size: %v", err)
		}
	}
	return j, nil
}

const maxRequest = 16 << 20

func (l *load) run(ctx context.Context, c *host.Controller, job bench.Job, progress func(float64)) (r *bench.Result, err error) {
	id, err := chooseNamespace(ctx, c, l.nsid)
	if err != nil {
		return nil, err
	}
	ns, err := c.Namespace(ctx, id)
	if err != nil {
		return nil, err
	}
	buffers, err := c.NewBuffers(job.Depth * job.BlockSize)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, buffers.Close()) }()
	return bench.Run(ctx, ns, buffers.Bytes(), job, progress)
}

// progressLine tells on a terminal how far a job is, in one line that goes away.
func progressLine(w io.Writer, what string) func(float64) {
	if !isTerminal(w) {
		return nil
	}
	return func(share float64) {
		if share >= 1 {
			fmt.Fprint(w, "\r\x1b[K")
			return
		}
		fmt.Fprintf(w, "\r\x1b[K%s: %3.0f %%", what, 100*share)
	}
}
