package connections

import (
	"fmt"
	"strings"
	"sync"
	"time"

	"github.com/nvmeof-go/nvmeof/nvmeof"
)

// Lines bounds how many lines the target of a connection can have the process print: it may give its namespaces
// another identity, or have them fail, with each event. Its methods may be called from any goroutine.
type Lines struct {
	about string
	print func(line string)

	mu   sync.Mutex  // guards what follows, and is held while something is printed
	full time.Time   // when there may be LineBurst lines at once again
	left int         // lines that were left out since the last word of them
	word *time.Timer // has Report called; nil: no line was ever left out
}

// How many lines are printed.
const (
	LineBurst = nvmeof.MaxNamespaces   // so that one for each comes through
	LineTime  = 250 * time.Millisecond // for each line after that
	leftTime  = 10 * time.Second       // after which it is said how many lines were left out
)

// NewLines are lines about something, as a subsystem by its name, that print prints. It may not call them.
func NewLines(about string, print func(line string)) *Lines {
	return &Lines{about: about, print: print}
}

// Allow reports whether a line may be printed, by whomever, and counts the one that may not.
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
		l.word = time.AfterFunc(leftTime, l.Report) // ends when that is said
	} else {
		l.word.Reset(leftTime)
	}
	return false
}

// Say prints a line, or one for each line of the text, if it may be.
func (l *Lines) Say(text string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for line := range strings.SplitSeq(text, "\n") {
		if l.allow() {
			l.print(line)
		}
	}
}

// Report prints how many lines were left out. Somebody calls it at the end.
func (l *Lines) Report() {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.left > 0 {
		l.print(fmt.Sprintf("%s changes too often: %d messages about it were suppressed", l.about, l.left))
		l.left = 0
		l.word.Stop()
	}
}
