package fio

import (
	"bufio"
	"fmt"
	"io"
	"time"

	"github.com/nvmeof-go/nvmeof/internal/bench"
)

// A LogKind is one of fio's logs, with the name used in its file name.
type LogKind string

const (
	LogBandwidth  LogKind = "bw"   // KiB per second
	LogIOPS       LogKind = "iops" // requests per second
	LogSubmission LogKind = "slat" // mean in nanoseconds, as the next two
	LogCompletion LogKind = "clat"
	LogLatency    LogKind = "lat"
)

// LogName returns the name of fio's log file of job n, counted from one.
func LogName(prefix string, kind LogKind, n int) string {
	return fmt.Sprintf("%s_%s.%d.log", prefix, kind, n)
}

// Log writes a log with a line for each window and direction: its end in milliseconds, the value, the direction (0
// read, 1 write, 2 trim) and the block size, which fio sets to 0 for windows. The columns that newer versions append
// are omitted, since the fiologparser of fio 3.33 rejects them.
func Log(w io.Writer, r *bench.Result, kind LogKind, every time.Duration) error {
	b := bufio.NewWriter(w)
	windows := r.Windows(every)
	for i := range windows {
		for d := range bench.Direction(bench.Directions) {
			if v, ok := logged(&windows[i], d, kind); ok && r.Pattern.Does(d) {
				fmt.Fprintf(b, "%d, %.0f, %d, 0\n", windows[i].End.Milliseconds(), v, d)
			}
		}
	}
	return b.Flush()
}

// logged returns the value of a window, and whether there is one: without requests there is no latency.
func logged(w *bench.Window, d bench.Direction, kind LogKind) (float64, bool) {
	n := float64(w.Ops[d])
	switch kind {
	case LogBandwidth:
		return w.Rate(d) / 1024, true
	case LogIOPS:
		return w.IOPS(d), true
	case LogSubmission:
		return float64(w.Slat[d]) / n, n > 0
	case LogCompletion:
		return float64(w.Clat[d]) / n, n > 0
	}
	return float64(w.Slat[d]+w.Clat[d]) / n, n > 0
}
