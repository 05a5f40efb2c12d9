package main

import (
	"flag"
	"fmt"
	"io"
	"os"
	"regexp"
	"slices"
	"time"

	"github.com/nvmeof-go/nvmeof/test/bench/internal/process"
	"github.com/nvmeof-go/nvmeof/test/bench/internal/report"
)

// options are the parsed command line.
type options struct {
	full, force     bool
	rounds          int
	time            time.Duration // of each measurement
	targets, hosts  process.Cores
	only            *regexp.Regexp // of groups; nil: all
	dir             string
	memory          int64 // bytes of namespaces in memory
	file            int64 // bytes of the file
	json, history   string
	record, compare bool
}

// minRounds is how many rounds a median and a spread need to be meaningful.
const minRounds = 5

func parseOptions(args []string, errOut io.Writer) (o options, err error) {
	var targets, hosts, only string
	flags := flag.NewFlagSet("bench", flag.ContinueOnError)
	flags.SetOutput(errOut)
	flags.BoolVar(&o.full, "full", false, "measure longer, and what takes long: many connections, idleness, loss")
	flags.BoolVar(&o.force, "force", false, "report although something else uses the CPU, and say so")
	flags.IntVar(&o.rounds, "rounds", minRounds, "how often each cell is measured")
	flags.DurationVar(&o.time, "time", 0, "of each measurement (default 250ms, with -full 2s)")
	flags.StringVar(&targets, "target-cores", "0", "processors of the target, and of other servers")
	flags.StringVar(&hosts, "host-cores", "1", "processors of the host, and of other clients")
	flags.StringVar(&only, "only", "", "regular expression of the groups to measure: "+groupNames())
	flags.StringVar(&o.dir, "dir", "/var/tmp", "where the file to be measured is created")
	flags.StringVar(&o.json, "json", "", "file for the report as JSON")
	flags.StringVar(&o.history, "history", "test/bench/history.jsonl", "history file")
	flags.BoolVar(&o.record, "record", false, "append the report to the history file")
	flags.BoolVar(&o.compare, "compare", false, "print what changed since the last entry of a machine like this")
	if err := flags.Parse(args); err != nil {
		return o, err
	}
	if flags.NArg() > 0 {
		return o, fmt.Errorf("%q: there are only flags; see -help", flags.Arg(0))
	}
	if o.targets, err = process.ParseCores(targets); err != nil {
		return o, fmt.Errorf("-target-cores: %w", err)
	}
	if o.hosts, err = process.ParseCores(hosts); err != nil {
		return o, fmt.Errorf("-host-cores: %w", err)
	}
	if only != "" {
		if o.only, err = regexp.Compile(only); err != nil {
			return o, fmt.Errorf("-only: %w", err)
		}
	}
	o = o.complete()
	return o, o.check()
}

func (o options) complete() options {
	if o.time == 0 {
		o.time = 250 * time.Millisecond
		if o.full {
			o.time = 2 * time.Second
		}
	}
	o.memory, o.file = 64<<20, 256<<20
	return o
}

func (o *options) check() error {
	if o.rounds < minRounds && o.record {
		return fmt.Errorf("-rounds %d: what is recorded has %d at least", o.rounds, minRounds)
	}
	if o.rounds < 1 || o.time < time.Millisecond {
		return fmt.Errorf("-rounds %d, -time %v: both must be positive", o.rounds, o.time)
	}
	all := slices.Concat(o.targets, o.hosts)
	if err := all.Check(); err != nil {
		return fmt.Errorf("%w: -target-cores and -host-cores name others", err)
	}
	for _, c := range o.hosts {
		if slices.Contains(o.targets, c) {
			return fmt.Errorf("processor %d cannot be both the target's and the host's", c)
		}
	}
	if info, err := os.Stat(o.dir); err != nil || !info.IsDir() {
		return fmt.Errorf("-dir %s is no folder", o.dir)
	}
	return nil
}

// ramp is the first part of each measurement, which is not counted.
func (o *options) ramp() time.Duration { return o.time / 5 }

// before returns the entry of the history to compare with, or nil. It must be called before this run is added.
func (o *options) before() (*report.Report, error) {
	if !o.compare {
		return nil, nil
	}
	return report.Last(o.history, machine())
}
