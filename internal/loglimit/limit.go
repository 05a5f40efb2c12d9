// Package loglimit limits the lines of a log that others can cause: peers, or clients of an HTTP server.
package loglimit

import (
	"sync"
	"time"

	"go.uber.org/zap"
)

// A Limit limits the lines in each period. Those beyond the limit are counted, and the next line contains the count.
// Any goroutine may use it.
type Limit struct {
	Lines  int           // constant
	Period time.Duration // constant; seconds

	mu         sync.Mutex
	period     int64
	lines      int
	suppressed uint64
}

// allow reports whether a line may be written now, and how many were suppressed before it.
func (l *Limit) allow(now time.Time) (suppressed uint64, ok bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if p := now.Unix() / int64(l.Period/time.Second); p != l.period {
		l.period, l.lines = p, 0
	}
	if l.lines == l.Lines {
		l.suppressed++
		return 0, false
	}
	l.lines++
	suppressed, l.suppressed = l.suppressed, 0
	return suppressed, true
}

// Write writes a line if the limit allows it.
func (l *Limit) Write(to func(string, ...zap.Field), msg string, fields []zap.Field) {
	suppressed, ok := l.allow(time.Now())
	if !ok {
		return
	}
	if suppressed > 0 {
		fields = append(fields, zap.Uint64("similar_lines_suppressed", suppressed))
	}
	to(msg, fields...)
}
