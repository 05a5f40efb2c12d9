package peerlog

import (
	"sync"
	"time"

	"go.uber.org/zap"

	"github.com/nvmeof-go/nvmeof/nvmeof/events"
)

// A Log is a logger with limits for lines that a peer can cause.
type Log struct {
	*zap.Logger
	Events   *events.Log // for events that an administrator looks up later; nil: none
	Troubles Limit       // limits errors
	Comings  Limit       // limits hosts that connect and disconnect, separately so that they do not suppress errors
}

// Maximum numbers of lines per second.
const (
	Troubles = 20
	Comings  = 100
)

// New returns a log with these limits.
func New(l *zap.Logger) *Log {
	return &Log{Logger: l, Troubles: Limit{perSecond: Troubles}, Comings: Limit{perSecond: Comings}}
}

// Trouble logs an error: the peer, the reason and the remedy.
func (l *Log) Trouble(msg string, fields ...zap.Field) { l.Troubles.Write(l.Warn, msg, fields) }

// A Limit limits the lines per second. Those beyond the limit are counted, and the next line contains the count.
type Limit struct {
	mu         sync.Mutex
	perSecond  int // constant
	second     int64
	lines      int
	suppressed uint64
}

// allow reports whether a line may be written now, and how many were suppressed before it.
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
