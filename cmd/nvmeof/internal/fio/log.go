package fio

import (
	"bufio"
	"fmt"
	"io"
	"time"

	"github.com/nvmeof-go/nvmeof/internal/bench"
)

// A LogKind is one of fio's logs, named as in its file.
type LogKind string

const (
	LogBandwidth  LogKind = "bw"   // KiB a second
	LogIOPS       LogKind = "iops" // requests a second
	LogSubmission LogKind = "slat" // nanoseconds on average, as the next two
	LogCompletion LogKind = "clat"
	LogLatency    LogKind = "lat"
)

// LogName is the file in which fio writes a log of job n, which counts from one.
func LogName(prefix string, kind LogKind, n int) string {
	return fmt.Sprintf("%s_%s.%d.log", prefix, kind, n)
}

// Log writes a log with a line for each window and direction: its end in
// milliseconds, the value, the direction (0 read, 1 write, 2 trim) and the block
// size, which fio gives as 0 for windows. The columns that newer versions add behind
// stay away, since the fiologparser that comes with fio 3.33 refuses them.
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

// logged is a value of a window, and whether there is one: no request has no latency.
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
