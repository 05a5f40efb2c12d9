package target

import (
	"strconv"
	"sync"
	"time"

	"go.uber.org/zap"

	"github.com/nvmeof-go/nvmeof/capsule"
)

// A logLimit bounds the lines that a peer can cause: what a second has no room
// for is counted, and the count stands in the next line.
type logLimit struct {
	mu         sync.Mutex
	perSecond  int // constant
	second     int64
	lines      int
	suppressed uint64
}

const (
	linesPerSecond   = 20  // of what goes wrong
	comingsPerSecond = 100 // of hosts that come and go
)

// allow reports whether a line may be written now, and how many before it were
// not.
func (l *logLimit) allow(now time.Time) (suppressed uint64, ok bool) {
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

// warn logs a refusal: who, what, why and what would help.
func (t *Target) warn(msg string, fields ...zap.Field) { t.limit.write(t.log.Warn, msg, fields) }

// write writes a line if there is room for it.
func (l *logLimit) write(to func(string, ...zap.Field), msg string, fields []zap.Field) {
	suppressed, ok := l.allow(time.Now())
	if !ok {
		return
	}
	if suppressed > 0 {
		fields = append(fields, zap.Uint64("similar_lines_suppressed", suppressed))
	}
	to(msg, fields...)
}

// printable is a name from a peer as it may be shown: quoted unless it is one.
func printable(f *capsule.NQNField) string {
	if f.Check() == nil {
		return f.String()
	}
	s := f.String()
	if len(s) > 64 {
		s = s[:64]
	}
	return strconv.QuoteToASCII(s)
}
