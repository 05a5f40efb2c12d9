package benchcommand

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"github.com/nvmeof-go/nvmeof/backend"
	"github.com/nvmeof-go/nvmeof/capsule"
	"github.com/nvmeof-go/nvmeof/cmd/nvmeof/internal/failure"
	"github.com/nvmeof-go/nvmeof/cmd/nvmeof/internal/nvmeverb"
	"github.com/nvmeof-go/nvmeof/cmd/nvmeof/internal/terminal"
	"github.com/nvmeof-go/nvmeof/internal/bench"
	"github.com/nvmeof-go/nvmeof/nvmeof"
)

// New returns the command.
func New(fabric Fabric, program Program) *cobra.Command {
	l := load{fabric: fabric, program: program}
	cmd := &cobra.Command{
		Use:   "bench -t rdma -a ADDR[,ADDR] -n NQN [--rw randread] [--bs 4k] [--iodepth 1]",
		Short: "Measure IOPS, throughput and latency of namespaces, with fio's options and output",
		Long: `Keep requests in flight and measure each, with the options of fio. Jobs that write
or trim overwrite the content of the namespace.

Without --size or --io_size a job runs for --runtime. With one of them it ends after
that many bytes, or after --runtime if that is given and comes first, as with fio;
with --time_based it runs for --runtime. Each random offset is used once before any
is repeated, unless --norandommap is given. CPU figures are those of the whole
process, the host's part of the fabric and the load generator, in equal shares for
each job.

--output-format json and json+ are fio 3.33's, with one more key, "nvmeof".
--write_bw_log and the other log options write logs for fio's plotting tools.
--verify=crc32c reads back what was written; with --rw read or randread it checks
what an earlier job wrote.

The measurement ends when its controller is lost, unless several addresses or one of
--reconnect-delay, --ctrl-loss-tmo, --fast_io_fail_tmo and --iopolicy are given. Then it
uses paths, as nvmeof attach does: requests wait for another path or for the lost one to
be reconnected, and the report lists what happened to the paths. Paths cost a little
performance.`,
		Example: `  nvmeof bench -t rdma -a 192.0.2.1 -n NQN --rw randread --bs 4k --iodepth 32 --runtime 5
  nvmeof bench -t rdma -a 192.0.2.1 -n NQN --rw randrw --rwmixread 70 --report out.html
  nvmeof bench -t rdma -a 192.0.2.1,192.0.2.2 -n NQN --rw randwrite --verify --runtime 60 --ctrl-loss-tmo 120
  nvmeof bench -t rdma -a 127.0.0.1 -n NQN --iodepth 1 --vs udp --vs local=mem:1GiB`,
		Args: l.args,
		RunE: func(cmd *cobra.Command, _ []string) error { return l.execute(cmd) },
	}
	fabric.AddFlags(cmd)
	l.addLoadFlags(cmd)
	return cmd
}

func (l *load) execute(cmd *cobra.Command) error {
	job, err := l.job(cmd)
	if err != nil {
		return err
	}
	print, err := failure.Pick(l.format, formats)
	if err != nil {
		return err
	}
	percentiles, err := l.percentiles()
	if err != nil {
		return err
	}
	versus, err := l.contenders(job)
	if err != nil {
		return err
	}
	out, err := l.outputs(cmd)
	if err != nil {
		return err
	}
	m := measurement{load: l, cmd: cmd, job: job, versus: versus, percentiles: percentiles}
	m.paths, err = l.fabric.Measure(cmd, m.run)
	if err != nil && !m.hasResults() {
		return errors.Join(err, out.drop())
	}
	return errors.Join(err, out.write(&m, print)) // after an interruption, the results so far in fio's format
}

// hasResults reports whether there are results of all jobs from before an error.
func (m *measurement) hasResults() bool {
	return len(m.results) > 0 && !slices.ContainsFunc(m.results, func(r *bench.Result) bool {
		return r == nil || r.Ops == 0 && m.cmd.Context().Err() == nil
	})
}

// A measurement is one run of the command and its results.
type measurement struct {
	load    *load
	cmd     *cobra.Command
	job     bench.Job
	versus  []*contender
	names   []string // of the jobs
	results []*bench.Result
	paths   *Paths // nil: it used one controller

	percentiles []float64 // nil: fio's
}

// A namespace is a namespace to be measured.
type namespace struct {
	id    capsule.NSID
	store backend.Store
}

// run measures through a link.
func (m *measurement) run(ctx context.Context, through Link) (err error) {
	namespaces, err := openNamespaces(ctx, through, m.load.nsids)
	if err != nil {
		return err
	}
	tasks, buffers, err := m.tasks(through, namespaces)
	if err != nil {
		return err
	}
	abandoned := false // abandoning frees the buffers
	for i := range tasks {
		tasks[i].Abandon = func() {
			abandoned = true
			through.abandon()
		}
	}
	defer func() {
		if !abandoned {
			err = errors.Join(err, buffers.Close())
		}
	}()
	m.load.program.NeedProcessors(m.load.fabric.Where().Queues+len(tasks)-1, nvmeof.PollAdaptive)
	if len(m.versus) > 0 {
		return m.compare(ctx, tasks)
	}
	m.results, err = bench.RunAll(ctx, tasks, terminal.Line(m.cmd.ErrOrStderr(), m.job.Pattern.String()))
	return err
}

// tasks returns the jobs of all namespaces, with memory that controllers access without a copy.
func (m *measurement) tasks(through Link, namespaces []namespace) (tasks []bench.Task, _ buffers, err error) {
	each := 0
	for _, ns := range namespaces {
		each = max(each, m.job.Memory(ns.store.Info()))
	}
	registered, err := through.newMemory(each * m.load.numjobs * len(namespaces))
	if err != nil {
		return nil, nil, err
	}
	memory := registered.Bytes()
	for _, ns := range namespaces {
		tasks = append(tasks, clones(ns.store, m.job, m.load.numjobs, each, memory[len(tasks)*each:])...)
		for range m.load.numjobs {
			m.names = append(m.names, m.load.jobName(ns.id))
		}
	}
	return tasks, registered, nil
}

// clones returns n tasks of the same job.
func clones(s backend.Store, job bench.Job, n, each int, memory []byte) (tasks []bench.Task) {
	for i := range n {
		tasks = append(tasks, bench.Task{Store: s, Memory: memory[i*each:][:each], Job: job})
	}
	return tasks
}

func (l *load) jobName(id capsule.NSID) string {
	if l.name != "" {
		return l.name
	}
	return fmt.Sprintf("ns%d", id)
}

// openNamespaces opens the namespaces of a list such as "1,2", all, or the lowest.
func openNamespaces(ctx context.Context, through Link, wanted string) (all []namespace, err error) {
	var ids []capsule.NSID
	switch wanted {
	case "all":
		if ids, err = through.Namespaces(ctx); err == nil && len(ids) == 0 {
			err = errors.New("the subsystem has no namespace")
		}
	default:
		ids, err = namedNamespaces(ctx, through, wanted)
	}
	if err != nil {
		return nil, err
	}
	for _, id := range ids {
		store, err := through.open(ctx, id)
		if err != nil {
			return nil, err
		}
		all = append(all, namespace{id, store})
	}
	return all, nil
}

func namedNamespaces(ctx context.Context, c nvmeverb.NamespaceLister, list string) (ids []capsule.NSID, err error) {
	for s := range strings.SplitSeq(list, ",") {
		n := uint64(0) // the lowest
		if list != "" {
			if n, err = strconv.ParseUint(s, 10, 32); err != nil || n == 0 {
				return nil, failure.Usagef("--namespace-id %s: numbers as in 1,2, or all", list)
			}
		}
		id, err := nvmeverb.ChooseNamespace(ctx, c, uint32(n))
		if err != nil {
			return nil, err
		}
		if slices.Contains(ids, id) {
			return nil, failure.Usagef("--namespace-id %s: %d is given twice; use --numjobs for several jobs on one namespace", list, id)
		}
		ids = append(ids, id)
	}
	return ids, nil
}
