package benchcommand

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/nvmeof-go/nvmeof/cmd/nvmeof/internal/benchreport"
	"github.com/nvmeof-go/nvmeof/cmd/nvmeof/internal/fio"
	"github.com/nvmeof-go/nvmeof/internal/bench"
)

// formats holds the formats of --output-format.
var formats = map[string]func(*fio.Output, io.Writer) error{
	"normal": (*fio.Output).Normal,
	"table":  (*fio.Output).Table,
	"json":   func(o *fio.Output, w io.Writer) error { return o.JSON(w, false) },
	"json+":  func(o *fio.Output, w io.Writer) error { return o.JSON(w, true) },
}

// benchOutputs holds the output files of a measurement. They are opened before it, so that a wrong path is reported at
// once.
type benchOutputs struct {
	load  *load
	cmd   *cobra.Command
	fresh []string // those that did not exist before
}

func (l *load) outputs(cmd *cobra.Command) (*benchOutputs, error) {
	o := &benchOutputs{load: l, cmd: cmd}
	paths := []string{l.output, l.report}
	for _, log := range l.logs() {
		paths = append(paths, fio.LogName(log.prefix, log.kind, 1))
	}
	for _, p := range paths {
		if p == "" {
			continue
		}
		_, err := os.Stat(p)
		if errors.Is(err, fs.ErrNotExist) {
			o.fresh = append(o.fresh, p)
		}
		f, err := os.OpenFile(p, os.O_WRONLY|os.O_CREATE, 0o666)
		if err != nil {
			return nil, errors.Join(err, o.drop())
		}
		if err := f.Close(); err != nil {
			return nil, err
		}
	}
	return o, nil
}

// drop removes the new files after a failed measurement.
func (o *benchOutputs) drop() (err error) {
	for _, p := range o.fresh {
		if e := os.Remove(p); !errors.Is(e, fs.ErrNotExist) {
			err = errors.Join(err, e)
		}
	}
	return err
}

// A wantedLog is a log in fio's format that was requested.
type wantedLog struct {
	prefix string
	kind   fio.LogKind
}

func (l *load) logs() (all []wantedLog) {
	for _, log := range []struct {
		prefix string
		kinds  []fio.LogKind
	}{
		{l.bwLog, []fio.LogKind{fio.LogBandwidth}}, {l.iopsLog, []fio.LogKind{fio.LogIOPS}},
		{l.latLog, []fio.LogKind{fio.LogSubmission, fio.LogCompletion, fio.LogLatency}},
	} {
		for _, kind := range log.kinds {
			if log.prefix != "" {
				all = append(all, wantedLog{log.prefix, kind})
			}
		}
	}
	return all
}

func (o *benchOutputs) write(m *measurement, print func(*fio.Output, io.Writer) error) error {
	l := o.load
	if m.paths != nil {
		m.paths.since(m.results[0].Began)
	}
	doc := m.document()
	if err := o.to(l.output, func(w io.Writer) error { return m.print(doc, w, print) }); err != nil {
		return err
	}
	for _, log := range l.logs() {
		for i, r := range m.results {
			err := writeFile(fio.LogName(log.prefix, log.kind, i+1), func(w io.Writer) error {
				return fio.Log(w, r, log.kind, time.Duration(l.logAvg)*time.Millisecond)
			})
			if err != nil {
				return err
			}
		}
	}
	if err := m.writeHistograms(l.writeHist); err != nil {
		return err
	}
	if l.report == "" {
		return nil
	}
	return writeFile(l.report, func(w io.Writer) error { return m.report(doc, w) })
}

// print prints the results in the selected format. For people it adds what fio's format has no place for.
func (m *measurement) print(doc *fio.Output, w io.Writer, print func(*fio.Output, io.Writer) error) error {
	if err := print(doc, w); err != nil || strings.HasPrefix(m.load.format, "json") {
		return err
	}
	if m.paths != nil {
		if err := m.paths.text(w); err != nil {
			return err
		}
	}
	if len(m.versus) == 0 {
		return nil
	}
	return m.printVersus(w)
}

// to writes to a file, or to standard output if the path is empty.
func (o *benchOutputs) to(path string, write func(io.Writer) error) error {
	if path == "" {
		return write(o.cmd.OutOrStdout())
	}
	return writeFile(path, write)
}

func writeFile(path string, write func(io.Writer) error) error {
	var b bytes.Buffer
	if err := write(&b); err != nil {
		return err
	}
	return os.WriteFile(path, b.Bytes(), 0o666)
}

func (m *measurement) writeHistograms(prefix string) error {
	if prefix == "" {
		return nil
	}
	all := bench.Merge(m.results)
	for d := range bench.Direction(bench.Directions) {
		h := all.Sides[d].Lat
		if h == nil || h.Count == 0 {
			continue
		}
		if err := writeFile(fmt.Sprintf("%s_%v.hgrm", prefix, d), func(w io.Writer) error { return fio.HDR(w, h) }); err != nil {
			return err
		}
	}
	return nil
}

// document returns the measurement in fio's terms.
func (m *measurement) document() *fio.Output {
	l := m.load
	given := fioOptions(m.cmd)
	var g fio.Group
	for i, r := range m.results {
		g.Jobs = append(g.Jobs, fio.Job{Name: m.names[i], Options: given, Clones: 1, Result: r})
	}
	if l.groupReporting {
		g.Jobs = []fio.Job{{Name: m.names[0], Options: given, Clones: len(m.results), Result: bench.Merge(m.results)}}
	}
	seed := m.results[0].Seed
	return &fio.Output{
		Program: m.load.program.Version(), Ended: time.Now(), Groups: []fio.Group{g}, Extra: m.extra(),
		Percentiles: fio.Percentiles{List: m.percentiles, Submission: l.slatPercentiles, NoCompletion: !l.clatPercentiles, Whole: l.latPercentiles},
		Global:      []fio.Option{{Name: "ioengine", Value: "nvmeof"}, {Name: "randseed", Value: fmt.Sprint(seed)}},
	}
}

// Extra holds the results that fio's format has no place for.
type Extra struct {
	Setting  map[string]string `json:"setting"`
	Verified uint64            `json:"verified_blocks"`
	Paths    *Paths            `json:"paths,omitempty"`
	Versus   []ratio           `json:"vs,omitempty"`
}

func (m *measurement) extra() Extra {
	x := Extra{Setting: map[string]string{}, Paths: m.paths}
	for _, row := range m.setting() {
		x.Setting[row.Name] = row.Value
	}
	for _, r := range m.results {
		x.Verified += r.Verified
	}
	for _, c := range m.versus {
		x.Versus = append(x.Versus, c.ratio())
	}
	return x
}

// report writes the HTML page.
func (m *measurement) report(doc *fio.Output, w io.Writer) error {
	var data bytes.Buffer
	if err := doc.JSON(&data, true); err != nil {
		return err
	}
	r := benchreport.Report{
		Title: fmt.Sprintf("nvmeof bench: %v of %s, %d in flight, %s", m.job.Pattern, m.job.SizeText(), m.job.Depth, m.load.fabric.Where().NQN),
		Ended: doc.Ended, Setting: m.setting(), JSON: data.Bytes(),
	}
	for _, j := range doc.Groups[0].Jobs {
		r.Jobs = append(r.Jobs, benchreport.Job{Name: j.Name, Result: j.Result})
	}
	if len(m.versus) > 0 {
		r.Versus = m.versusTable()
	}
	if m.paths != nil {
		r.Paths, r.Events = m.paths.table()
	}
	return r.Write(w)
}

// fioOptions returns the fio options that were given, and those that every job has.
func fioOptions(cmd *cobra.Command) (all []fio.Option) {
	for _, name := range []string{"rw", "bs", "bsrange", "bssplit", "iodepth", "numjobs", "rwmixread", "runtime", "time_based", "ramp_time", "size", "io_size", "offset",
		"verify", "rate", "rate_iops", "thinktime", "thinktime_blocks", "fsync", "percentile_list", "clat_percentiles", "lat_percentiles", "slat_percentiles", "norandommap", "group_reporting", "write_bw_log", "write_lat_log", "write_iops_log", "log_avg_msec"} {
		f := cmd.Flags().Lookup(name)
		if f.Changed || slices.Contains([]string{"rw", "bs", "iodepth"}, name) {
			all = append(all, fio.Option{Name: name, Value: f.Value.String()})
		}
	}
	return all
}
