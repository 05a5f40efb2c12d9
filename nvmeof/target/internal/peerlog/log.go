package peerlog

import (
	"sync"
	"time"

	"go.uber.org/zap"
)

// A Log is a logger, with limits for lines that a peer can cause.
type Log struct {
	*zap.Logger
	Troubles Limit // of what goes wrong
	Comings  Limit // of hosts that come and go, so that these hide none of those
}

// How many lines there are in a second at most.
const (
	Troubles = 20
	Comings  = 100
)

// New returns a log with these limits.
func New(l *zap.Logger) *Log {
	return &Log{Logger: l, Troubles: Limit{perSecond: Troubles}, Comings: Limit{perSecond: Comings}}
}

// Trouble logs what went wrong: who, what, why and what would help.
func (l *Log) Trouble(msg string, fields ...zap.Field) { l.Troubles.Write(l.Warn, msg, fields) }

// A Limit bounds lines: what a second has no room for is counted, and the count stands in
// the next line.
type Limit struct {
	mu         sync.Mutex
	perSecond  int // constant
	second     int64
	lines      int
	suppressed uint64
}

// allow reports whether a line may be written now, and how many before it were
// not.
func (l *Limit) allow(now time.Time) (suppressed uint64, ok bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if s := now.Unix(); s != l.second {
		l.second, l.lines = s, 0
	}
	if l.lines == l.perSecond {
		l.suppressed++
		return 0, false
	}
	l.lines++
	suppressed, l.suppressed = l.suppressed, 0
	return suppressed, true
}

// Write writes a line if there is room for it.
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
