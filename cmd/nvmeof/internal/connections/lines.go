package connections

import (
	"fmt"
	"strings"
	"sync"
	"time"

	"github.com/nvmeof-go/nvmeof/nvmeof"
)

// Lines limits the rate of log lines that the target of a connection can cause: it may change the identity of its
// namespaces, or make them fail, with each event. Its methods may be called from any goroutine.
type Lines struct {
	about string
	print func(line string)

	mu   sync.Mutex  // guards the fields below; held while a line is printed
	full time.Time   // when a full burst is allowed again
	left int         // lines left out since the last report
	word *time.Timer // calls Report; nil: no line was ever left out
}

// The rate of lines.
const (
	LineBurst = nvmeof.MaxNamespaces   // allows one line for each namespace
	LineTime  = 250 * time.Millisecond // for each further line
	leftTime  = 10 * time.Second       // delay before the number of lines left out is reported
)

// NewLines limits the lines about a subject, such as the name of a subsystem. It calls print, which must not call its
// methods.
func NewLines(about string, print func(line string)) *Lines {
	return &Lines{about: about, print: print}
}

// Allow reports whether the caller may print a line. If not, it counts the line as left out.
func (l *Lines) Allow() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.allow()
}

// allow is Allow with mu held.
func (l *Lines) allow() bool {
	now := time.Now()
	if l.full.Before(now) {
		l.full = now
	}
	if l.full.Sub(now) <= (LineBurst-1)*LineTime {
		l.full = l.full.Add(LineTime)
		return true
	}
	if l.left++; l.left > 1 {
		return false
	}
	if l.word == nil {
		l.word = time.AfterFunc(leftTime, l.Report) // ends when Report returns
	} else {
		l.word.Reset(leftTime)
	}
	return false
}

// Say prints each line of the text that the limit allows.
func (l *Lines) Say(text string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for line := range strings.SplitSeq(text, "\n") {
		if l.allow() {
			l.print(line)
		}
	}
}

// Report prints how many lines were left out. It must also be called at the end.
func (l *Lines) Report() {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.left > 0 {
		l.print(fmt.Sprintf("%s changes too often: %d messages about it were suppressed", l.about, l.left))
		l.left = 0
		l.word.Stop()
	}
}
