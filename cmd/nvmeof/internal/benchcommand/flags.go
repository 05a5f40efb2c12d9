package benchcommand

import (
	"math"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/nvmeof-go/nvmeof/cmd/nvmeof/internal/failure"
	"github.com/nvmeof-go/nvmeof/internal/bench"
	"github.com/nvmeof-go/nvmeof/nvmeof"
)

// load holds the flags of bench, with fio's names.
type load struct {
	fabric  Fabric
	program Program

	nsids string
	name  string

	rw, bs               string
	bsrange, bssplit     string
	iodepth, numjobs     int
	rwmixread            int
	runtime, ramp        seconds
	timeBased            bool
	size, ioSize, offset string
	verify               string
	rate, rateIOPS       string
	think                microseconds
	thinkBlocks, fsync   int
	randseed             uint64
	norandommap          bool

	format, output            string
	groupReporting            bool
	percentileList            string
	slatPercentiles           bool
	clatPercentiles           bool
	latPercentiles            bool
	bwLog, latLog, iopsLog    string
	logAvg                    int // milliseconds
	writeHist, report         string
	versus                    []string
	rounds                    int
	ignoredEngine, ignoredDir string
}

const (
	defaultRuntime = 5 * time.Second
	defaultRamp    = 200 * time.Millisecond
	crc32c         = "crc32c"
	// bareVerify is the value of --verify without an argument.
	bareVerify = "yes"
	maxJobs    = 256
)

func (l *load) addLoadFlags(cmd *cobra.Command) {
	flags := cmd.Flags()
	_ = flags.MarkHidden("duplicate-connect")
	flags.StringVar(&l.nsids, "namespace-id", "", "identifiers of the namespaces, as 1,2, or all (default: the lowest)")
	flags.StringVar(&l.name, "name", "", "name of the job in the output (default: ns1)")
	flags.StringVar(&l.rw, "rw", "randread", "read, write, randread, randwrite, rw (or readwrite), randrw, trim, randtrim, trimwrite or randtrimwrite")
	flags.StringVar(&l.bs, "bs", "4k", "size of a request in bytes; 4k,8k,16k sets reads, writes and trims separately, here and below")
	flags.StringVar(&l.bsrange, "bsrange", "", "range of request sizes, as 4k-64k: random multiples of the first")
	flags.StringVar(&l.bssplit, "bssplit", "", "request sizes with their shares in percent, as 4k/60:64k/40")
	flags.IntVar(&l.iodepth, "iodepth", 1, "number of requests in flight per job")
	flags.IntVar(&l.numjobs, "numjobs", 1, "number of jobs per namespace, each with its own thread; -i sets the number of I/O queues")
	flags.IntVar(&l.rwmixread, "rwmixread", 50, "percentage of reads, for rw and randrw")
	flags.Var(&l.runtime, "runtime", "time to measure, in seconds or as 500ms or 2m (default 5 without a size)")
	flags.BoolVar(&l.timeBased, "time_based", false, "run for --runtime, even if --size bytes are done before")
	flags.Var(&l.ramp, "ramp_time", "time to run before measuring, as --runtime (default 200ms without a size)")
	flags.StringVar(&l.size, "size", "", "size of the range from --offset on, after which the job ends (default: to the end of the namespace, repeatedly)")
	flags.StringVar(&l.ioSize, "io_size", "", "number of bytes after which the job ends, instead of --size")
	flags.StringVar(&l.offset, "offset", "", "start of the range (default 0)")
	flags.StringVar(&l.verify, "verify", "", "crc32c: read back and verify what was written; with read or randread, verify what an earlier job wrote")
	flags.Lookup("verify").NoOptDefVal = bareVerify
	flags.StringVar(&l.rate, "rate", "", "maximum bytes per second of a job and direction; 1m,500k or ,500k sets reads, writes and trims separately")
	flags.StringVar(&l.rateIOPS, "rate_iops", "", "maximum requests per second, of the smallest size, as --rate")
	flags.Var(&l.think, "thinktime", "length of the pause after --thinktime_blocks requests, with nothing in flight, in microseconds or as 5ms")
	flags.IntVar(&l.thinkBlocks, "thinktime_blocks", 1, "number of requests between two pauses of --thinktime")
	flags.IntVar(&l.fsync, "fsync", 0, "number of writes after which to flush (default: never)")
	flags.Uint64Var(&l.randseed, "randseed", 0, "seed of offsets, sizes and data, also --seed (default: a new one each time)")
	flags.BoolVar(&l.norandommap, "norandommap", false, "choose each random offset independently; offsets may repeat")
	l.addOutputFlags(flags)
	flags.SetNormalizeFunc(fioName)
}

func (l *load) addOutputFlags(flags *pflag.FlagSet) {
	flags.StringVarP(&l.format, "output-format", "o", "normal", "output format: normal|json|json+|table")
	flags.StringVar(&l.output, "output", "", "file to write the output to (default: standard output)")
	flags.BoolVar(&l.groupReporting, "group_reporting", false, "report all jobs as one")
	flags.StringVar(&l.percentileList, "percentile_list", "", "percentiles to report, as 50:99:99.9, at most 20 (default: fio's)")
	flags.BoolVar(&l.clatPercentiles, "clat_percentiles", true, "report percentiles of completion latencies")
	flags.BoolVar(&l.latPercentiles, "lat_percentiles", false, "report percentiles of total latencies")
	flags.BoolVar(&l.slatPercentiles, "slat_percentiles", false, "report percentiles of submission latencies")
	flags.StringVar(&l.bwLog, "write_bw_log", "", "write throughput over time to PREFIX_bw.1.log, in fio's format, and so on for each job")
	flags.StringVar(&l.latLog, "write_lat_log", "", "write mean latencies over time to PREFIX_slat.1.log, PREFIX_clat.1.log, PREFIX_lat.1.log")
	flags.StringVar(&l.iopsLog, "write_iops_log", "", "write IOPS over time to PREFIX_iops.1.log")
	flags.IntVar(&l.logAvg, "log_avg_msec", 500, "interval of the lines of a log in milliseconds; single requests are not logged")
	flags.StringVar(&l.writeHist, "write_hist", "", "write percentiles to PREFIX_read.hgrm, PREFIX_write.hgrm, PREFIX_trim.hgrm, in HdrHistogram's format")
	flags.StringVar(&l.report, "report", "", "file for a report with figures and plots, a self-contained HTML page")
	flags.StringArrayVar(&l.versus, "vs", nil, "alternate with udp (plain UDP over loopback) or local=EXPORT (a store without the fabric, as in target --export), and compare")
	flags.IntVar(&l.rounds, "vs_rounds", 3, "number of comparisons; medians are reported")
	flags.StringVar(&l.ignoredEngine, "ioengine", "", "")
	flags.StringVar(&l.ignoredDir, "direct", "", "")
	for _, name := range []string{"ioengine", "direct"} { // without effect here, but present in most fio command lines
		_ = flags.MarkHidden(name)
	}
}

// fioName lets options be written with dashes in place of fio's underscores.
func fioName(flags *pflag.FlagSet, name string) pflag.NormalizedName {
	switch dashed := strings.ReplaceAll(name, "_", "-"); dashed {
	case "seed":
		name = "randseed"
	case "ramp-time", "time-based", "io-size", "rate-iops", "group-reporting", "write-bw-log", "write-lat-log", "write-iops-log",
		"log-avg-msec", "write-hist", "vs-rounds", "thinktime-blocks", "percentile-list", "clat-percentiles", "lat-percentiles", "slat-percentiles":
		name = strings.ReplaceAll(name, "-", "_")
	case "readwrite":
		name = "rw"
	case "blocksize":
		name = "bs"
	case "blocksize-range":
		name = "bsrange"
	case "fast-io-fail-tmo":
		name = "fast_io_fail_tmo"
	case "output-format":
		name = dashed
	}
	return pflag.NormalizedName(name)
}

// args accepts the value of --verify as a separate word, although the value is optional.
func (l *load) args(cmd *cobra.Command, args []string) error {
	if l.verify == bareVerify && len(args) > 0 {
		l.verify, args = args[0], args[1:]
	}
	return cobra.NoArgs(cmd, args)
}

// seconds is a duration; a plain number is in seconds, as with fio.
type seconds time.Duration

func (s *seconds) Set(text string) error {
	if n, err := strconv.ParseFloat(text, 64); err == nil {
		if n < 0 || n > math.MaxInt64/1e9 || math.IsNaN(n) {
			return strconv.ErrRange
		}
		*s = seconds(n * 1e9)
		return nil
	}
	d, err := time.ParseDuration(text)
	*s = seconds(d)
	return err
}

func (s *seconds) String() string {
	if *s == 0 {
		return "" // pflag then prints no default of its own
	}
	return time.Duration(*s).String()
}

func (*seconds) Type() string { return "seconds" }

// job returns the job that the flags describe.
func (l *load) job(cmd *cobra.Command) (j bench.Job, err error) {
	j = bench.Job{Depth: l.iodepth, FlushEvery: l.fsync, Seed: l.randseed, RepeatAny: l.norandommap, ReadShare: l.rwmixread,
		Think: time.Duration(l.think), ThinkEvery: l.thinkBlocks}
	if j.Pattern, err = bench.ParsePattern(l.rw); err != nil {
		return j, failure.Usagef("--rw %v", err)
	}
	for _, step := range []func(*bench.Job) error{l.checkNumbers, l.blockSizes, l.rates, l.place, l.verification} {
		if err := step(&j); err != nil {
			return j, err
		}
	}
	if l.rwmixread == 0 && j.Pattern.Mixed() { // zero would select a job's default
		j.Pattern = map[bench.Pattern]bench.Pattern{bench.ReadWrite: bench.Write, bench.RandRW: bench.RandWrite}[j.Pattern]
	}
	err = l.times(cmd, &j)
	return j, err
}

func (l *load) checkNumbers(j *bench.Job) error {
	for _, n := range []struct {
		name              string
		value, least, top int
	}{
		{"iodepth", l.iodepth, 1, 1024}, {"numjobs", l.numjobs, 1, maxJobs}, {"rwmixread", l.rwmixread, 0, 100},
		{"thinktime_blocks", l.thinkBlocks, 1, math.MaxInt32}, {"fsync", l.fsync, 0, math.MaxInt32}, {"log_avg_msec", l.logAvg, 1, 3600e3}, {"vs_rounds", l.rounds, 1, 100},
	} {
		if n.value < n.least || n.value > n.top {
			return failure.Usagef("--%s %d: want %d to %d", n.name, n.value, n.least, n.top)
		}
	}
	if l.fsync > 0 && !j.Pattern.Does(bench.ToWrite) {
		return failure.Usagef("--fsync %d: --rw %s writes nothing that could be flushed", l.fsync, l.rw)
	}
	if l.runtime < 0 || l.ramp < 0 {
		return failure.Usagef("--runtime and --ramp_time must not be negative")
	}
	return nil
}

// place sets the range and the amount of the load.
func (l *load) place(j *bench.Job) error {
	for _, s := range []struct {
		name, text string
		to         *int64
	}{{"size", l.size, &j.Size}, {"io_size", l.ioSize, &j.Limit}, {"offset", l.offset, &j.Offset}} {
		if s.text == "" || s.text == "0" && s.name == "offset" {
			continue
		}
		n, err := nvmeof.ParseSize(s.text)
		if err != nil {
			return failure.Usagef("--%s: %v", s.name, err)
		}
		*s.to = n
	}
	if j.Limit == 0 {
		j.Limit = j.Size
	}
	return nil
}

func (l *load) verification(j *bench.Job) error {
	known := []string{crc32c, bareVerify}
	switch {
	case l.verify == "":
		return nil
	case !slices.Contains(known, l.verify):
		return failure.Usagef("--verify %s: only crc32c is supported%s", l.verify, failure.DidYouMean(l.verify, known[:1]))
	case !j.Pattern.Does(bench.ToRead) && !j.Pattern.Does(bench.ToWrite):
		return failure.Usagef("--verify: %s leaves nothing to verify", l.rw)
	}
	j.Verify = true
	return nil
}

// times sets when a job ends. With fio, no time means no limit, but then a job without a size would never end.
func (l *load) times(cmd *cobra.Command, j *bench.Job) error {
	j.Runtime, j.Ramp = time.Duration(l.runtime), time.Duration(l.ramp)
	if l.timeBased || j.Limit == 0 {
		j.Limit = 0
		if j.Runtime == 0 {
			if cmd.Flags().Changed("runtime") {
				return failure.Usagef("--runtime 0: the job would never end: give a time, as --runtime 60, or --size without --time_based")
			}
			j.Runtime = defaultRuntime
		}
		if !cmd.Flags().Changed("ramp_time") {
			j.Ramp = defaultRamp
		}
	}
	if l.bwLog+l.latLog+l.iopsLog != "" {
		j.Interval = min(10*time.Millisecond, time.Duration(l.logAvg)*time.Millisecond)
	}
	return nil
}
