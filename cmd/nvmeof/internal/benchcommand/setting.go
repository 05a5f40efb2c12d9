package benchcommand

import (
	"fmt"
	"io"
	"os"
	"runtime"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	"golang.org/x/sys/unix"

	"github.com/nvmeof-go/nvmeof/cmd/nvmeof/internal/benchreport"
	"github.com/nvmeof-go/nvmeof/internal/bench"
)

// setting returns the conditions on which a result depends.
func (m *measurement) setting() []benchreport.Row {
	w := m.load.fabric.Where()
	port := w.Trsvcid
	if port == "" {
		port = "4420"
	}
	return []benchreport.Row{
		{Name: "target", Value: fmt.Sprintf("%s:%s, %s", strings.ReplaceAll(w.Traddr, ",", ":"+port+" "), port, w.NQN)},
		{Name: "transport", Value: "rdma, " + w.Provider},
		{Name: "host", Value: processor()},
		{Name: "kernel", Value: kernel()},
		{Name: "program", Value: m.load.program.Version()},
		{Name: "command line", Value: commandLine(m.cmd)},
	}
}

// processor returns the kind and number of this machine's processors.
func processor() string {
	model := "unknown processor"
	if b, err := os.ReadFile("/proc/cpuinfo"); err == nil {
		for line := range strings.Lines(string(b)) {
			if name, value, ok := strings.Cut(line, ":"); ok && strings.TrimSpace(name) == "model name" {
				model = strings.TrimSpace(value)
				break
			}
		}
	}
	return fmt.Sprintf("%s, %d processors, %s", model, runtime.NumCPU(), runtime.GOARCH)
}

func kernel() string {
	var u unix.Utsname
	if unix.Uname(&u) != nil {
		return "unknown"
	}
	return unix.ByteSliceToString(u.Sysname[:]) + " " + unix.ByteSliceToString(u.Release[:])
}

// secretFile marks the name of a file that contains a secret; the name itself is not secret.
const secretFile = "file:"

// commandLine returns the command line without secrets.
func commandLine(cmd *cobra.Command) string {
	words := []string{"nvmeof", cmd.Name()}
	cmd.Flags().Visit(func(f *pflag.Flag) {
		value := f.Value.String()
		switch f.Name {
		case "dhchap-secret", "dhchap-ctrl-secret":
			if !strings.HasPrefix(value, secretFile) {
				value = "..."
			}
		case "vs":
			for _, v := range cmd.Flags().Lookup("vs").Value.(pflag.SliceValue).GetSlice() {
				words = append(words, "--vs", v)
			}
			return
		}
		if f.Value.Type() == "bool" || f.NoOptDefVal != "" {
			words = append(words, "--"+f.Name+"="+value)
			return
		}
		words = append(words, "--"+f.Name, value)
	})
	return strings.Join(words, " ")
}

// versusTable returns the comparison for people.
func (m *measurement) versusTable() *benchreport.Versus {
	v := &benchreport.Versus{Columns: []string{"", "IOPS", "MB/s", "p50", "p99"}}
	fabric := figuresOf(bench.Merge(m.results))
	v.Rows = append(v.Rows, []string{"through the fabric", cell("%.0f", fabric.iops), cell("%.1f", fabric.rate/1e6),
		bench.Latency(fabric.p50), bench.Latency(fabric.p99)})
	for _, c := range m.versus {
		r := c.ratio()
		v.Rows = append(v.Rows,
			[]string{r.Name, cell("%.0f", r.IOPS), cell("%.1f", r.Rate/1e6), times(r.P50), times(r.P99)},
			[]string{"  the fabric, relative to that", cell("%.2f times", r.IOPSRatio), cell("%.2f times", r.RateRatio), cell("%.2f times", r.P50Ratio), ""})
	}
	v.Note = fmt.Sprintf("Medians of %d rounds; each round measured all of them, one right after the other.", m.load.rounds)
	return v
}

// cell formats a figure; "" if it is zero.
func cell(format string, v float64) string {
	if v == 0 {
		return ""
	}
	return fmt.Sprintf(format, v)
}

func times(ns int64) string {
	if ns == 0 {
		return ""
	}
	return bench.Latency(time.Duration(ns))
}

func (m *measurement) printVersus(w io.Writer) error {
	v := m.versusTable()
	var b strings.Builder
	b.WriteString("\n")
	for _, row := range append([][]string{v.Columns}, v.Rows...) {
		line := fmt.Sprintf("%-36s%14s%14s%14s%12s", row[0], row[1], row[2], row[3], row[4])
		b.WriteString(strings.TrimRight(line, " ") + "\n")
	}
	b.WriteString(v.Note + "\n")
	_, err := io.WriteString(w, b.String())
	return err
}
