package metrics

import (
	"iter"
	"sync/atomic"

	"go.uber.org/zap/zapcore"
)

// A LogCounter counts the lines of a log by level. It is attached to a logger by the option zap.Hooks(c.Count). The
// zero value is ready for use.
type LogCounter struct {
	n [zapcore.FatalLevel - zapcore.DebugLevel + 1]atomic.Uint64
}

// Count counts a line.
func (c *LogCounter) Count(e zapcore.Entry) error {
	if e.Level >= zapcore.DebugLevel && e.Level <= zapcore.FatalLevel {
		c.n[e.Level-zapcore.DebugLevel].Add(1)
	}
	return nil
}

// all yields each level with its count, except the levels that end the program.
func (c *LogCounter) all() iter.Seq2[string, uint64] {
	return func(yield func(string, uint64) bool) {
		for l := zapcore.DebugLevel; l <= zapcore.ErrorLevel; l++ {
			if !yield(l.String(), c.n[l-zapcore.DebugLevel].Load()) {
				return
			}
		}
	}
}
