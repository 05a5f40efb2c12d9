package attachcommand

import (
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/nvmeof-go/nvmeof/nvmeof"
)

// lines bounds how many lines a target can have the process print: it may give its namespaces another identity, or
// have them fail, with each event. The zero value is ready.
type lines struct {
	full time.Time // when there may be lineBurst lines at once again
	left int       // lines that were left out since the last word of them
}

const (
	lineBurst = nvmeof.MaxNamespaces   // so that one for each comes through
	lineTime  = 250 * time.Millisecond // for each line after that
	leftTime  = 10 * time.Second       // after which it is said how many lines were left out
)

// allow reports whether a line may be printed, and counts the one that may not.
func (l *lines) allow() bool {
	now := time.Now()
	if l.full.Before(now) {
		l.full = now
	}
	if l.full.Sub(now) > (lineBurst-1)*lineTime {
		l.left++
		return false
	}
	l.full = l.full.Add(lineTime)
	return true
}

// warn prints an error, which may have many lines.
func (l *lines) warn(w io.Writer, err error) {
	for line := range strings.SplitSeq(err.Error(), "\n") {
		if l.allow() {
			fmt.Fprintln(w, "nvmeof:", line)
		}
	}
}

// due is when to say how many lines were left out; nil: none was.
func (l *lines) due() <-chan time.Time {
	if l.left == 0 {
		return nil
	}
	return time.After(leftTime)
}

// report prints how many lines were left out.
func (l *lines) report(w io.Writer) {
	if l.left > 0 {
		fmt.Fprintf(w, "nvmeof: the namespaces of the subsystem change too often: %d lines about them were left out\n", l.left)
		l.left = 0
	}
}
