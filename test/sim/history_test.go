package sim

import (
	"fmt"
	"hash/fnv"
	"math"
	"slices"
	"strings"
	"time"
)

// A value identifies a write by its host, worker and number.
type value uint64

func newValue(host, worker, n int) value {
	return value(uint64(host+1)<<48 | uint64(worker+1)<<32 | uint64(n))
}

func (v value) host() int { return int(v>>48) - 1 }

func (v value) String() string {
	if v == 0 {
		return "zeroes"
	}
	return fmt.Sprintf("%c%d.%d", 'A'+rune(v.host()), v>>32&0xffff-1, uint32(v))
}

// kind is the kind of an operation of the history.
type kind uint8

const (
	read kind = iota
	write
	flush
	swap  // Compare and Write
	crash // power failure of the disk
)

func (k kind) String() string {
	return [...]string{"read", "write", "flush", "compare and write", "crash"}[k]
}

// never is the end of an operation that may still be executed at any time.
const never = math.MaxInt64

// An operation is an entry of the history. call and end are numbers from one counter of all events, which gives their
// order.
type operation struct {
	kind         kind
	host, worker int
	life         int32 // of the host
	first        int
	values       []value // written or read, one for each block
	expected     value   // swap
	fua          bool
	reboot       bool      // crash: all targets' machines also restart
	volatile     [][]value // crash: values of each block that it may have undone

	call, end  int64
	at, until  time.Duration
	err        error
	miscompare bool // swap
	done       bool
}

// succeeded reports whether it was certainly executed.
func (o *operation) succeeded() bool { return o.done && o.err == nil }

// writes reports whether it changes blocks or may have done so.
func (o *operation) writes() bool { return o.kind == write || o.kind == swap && !o.miscompare }

func (o *operation) touches(block int) bool {
	return o.kind == flush || o.kind == crash || block >= o.first && block < o.first+len(o.values)
}

func (o *operation) of(block int) value { return o.values[block-o.first] }

// mayUndo reports whether a crash found a value of write w that was not durable.
func (o *operation) mayUndo(w *operation) bool {
	for i, v := range w.values {
		if slices.Contains(o.volatile[w.first+i], v) {
			return true
		}
	}
	return false
}

func (o *operation) who() string { return fmt.Sprintf("%c%d", 'A'+rune(o.host), o.worker) }

func (o *operation) String() string {
	var b strings.Builder
	b.WriteString(o.kind.String())
	switch {
	case o.kind == flush, o.kind == crash:
		return b.String()
	case o.fua:
		b.WriteString(" with FUA")
	}
	fmt.Fprintf(&b, " of block %d", o.first)
	if len(o.values) > 1 {
		fmt.Fprintf(&b, " to %d", o.first+len(o.values)-1)
	}
	switch {
	case o.kind == swap:
		fmt.Fprintf(&b, ": %v for %v", o.values[0], o.expected)
	case o.kind == write || o.succeeded():
		fmt.Fprintf(&b, ": %v", o.values)
	}
	return b.String()
}

// An event is a line of the story.
type event struct {
	number int64
	at     time.Duration
	actor  string
	text   string
}

// storyLines returns all events in order.
func (w *world) storyLines() []string {
	events := slices.Clone(w.events)
	for _, o := range w.history {
		events = append(events, event{o.call, o.at, o.who(), o.String()})
		if o.kind == crash || !o.done {
			continue
		}
		text := fmt.Sprintf("the %v of event %d: done", o.kind, o.call)
		if o.kind == read && o.err == nil {
			text += fmt.Sprintf(", %v", o.values)
		}
		if o.err != nil {
			text = fmt.Sprintf("the %v of event %d: %v", o.kind, o.call, o.err)
		}
		number := o.end
		if number == never {
			number = o.call
			text += "; it may still be carried out"
		}
		events = append(events, event{number, o.until, o.who(), text})
	}
	slices.SortStableFunc(events, func(a, b event) int { return int(a.number - b.number) })
	var lines []string
	for _, e := range events {
		lines = append(lines, fmt.Sprintf("%6d %12.6f s  %-8s %s", e.number, e.at.Seconds(), e.actor, e.text))
	}
	return lines
}

// fingerprint returns a hash of the story.
func (w *world) fingerprint() uint64 {
	h := fnv.New64a()
	for _, l := range w.storyLines() {
		h.Write([]byte(l))
	}
	return h.Sum64()
}
