package events

import (
	"cmp"
	"context"
	"crypto/rand"
	"encoding/hex"
	"slices"
	"strings"
	"sync"
	"time"
)

// A Config describes a log. Its zero value is the default.
type Config struct {
	Entries int              // how many events are kept, from 80 to 65000, rounded down to a multiple of 5; default 1280
	Now     func() time.Time // default: time.Now
	// Failed is called, in a goroutine of the log, when the file begins to fail, and with nil
	// when it takes events again; default: nobody is told.
	Failed func(error)
}

// Bounds of [Config.Entries].
const (
	MinEntries     = 80
	MaxEntries     = 65000
	DefaultEntries = 1280
)

// A Log keeps the last events. Its methods may be called by any goroutine, also by those
// that must not block; a nil Log keeps none.
type Log struct {
	cfg   Config
	id    string
	run   string // distinguishes it from itself before a restart
	begun []run  // of its file, the last is this one; none: it has no file
	file  *file  // nil: none

	mu      sync.Mutex // held for as long as memory is copied; guards what follows
	seq     uint64
	rings   [parts]ring
	folds   folds
	waiters int
	changed chan struct{} // closed at the next event, if somebody waits
	stats   Stats
}

// Stats count what a log has not kept.
type Stats struct {
	Suppressed uint64 // events beyond the rate
	Unwritten  uint64 // events that are not in the file
	Damaged    int    // records of the file that were not read
}

// A ring has the last events of a part.
type ring struct {
	entries  []Event
	n        uint64 // events, ever
	second   int64
	inSecond int
	beyond   int  // the rate, and not counted in an event yet
	kind     Kind // of the last one of those
}

// perSecond is how many events of a part there are in a second.
const perSecond = 20

// New returns a log in memory.
func New(cfg Config) *Log {
	if cfg.Entries == 0 {
		cfg.Entries = DefaultEntries
	}
	cfg.Entries = max(MinEntries, min(cfg.Entries, MaxEntries)) / int(parts) * int(parts)
	if cfg.Now == nil {
		cfg.Now = time.Now
	}
	l := &Log{cfg: cfg, changed: make(chan struct{})}
	for i := range l.rings {
		l.rings[i].entries = make([]Event, cfg.Entries/int(parts))
	}
	var id [8]byte
	_, _ = rand.Read(id[:]) // it never fails
	l.id = hex.EncodeToString(id[:])
	_, _ = rand.Read(id[:4])
	l.run = hex.EncodeToString(id[:4])
	return l
}

// ID distinguishes the log from others: sequence numbers of two have nothing to do with
// each other. A log in a file keeps the part before the dot; the other part is new each time
// that it is opened.
func (l *Log) ID() string {
	if l == nil {
		return ""
	}
	return l.id + "." + l.run
}

// Resume returns the number after which events are new to somebody who has seen those up to seq
// of the log that had an ID. Events that were not written before a restart have lost their
// numbers, which others have by now. The file knows where its last restarts were: after more of
// them all events are new. Without an ID seq is a number of this log.
func (l *Log) Resume(id string, seq uint64) uint64 {
	file, run, _ := strings.Cut(id, ".")
	switch {
	case l == nil || id != "" && file != l.id:
		return 0
	case id != "" && run != l.run:
		return min(seq, common(l.begun, run))
	case seq > l.Last():
		return 0
	}
	return seq
}

// Record adds an event, with the next number and the time. Equal ones may be counted instead,
// and others beyond a rate dropped; see the package's documentation.
func (l *Log) Record(e Event) {
	if l == nil {
		return
	}
	e.trim()
	now := l.cfg.Now()
	l.mu.Lock()
	defer l.mu.Unlock()
	l.flush(now)
	p := e.Kind.part()
	if p < objects && l.folds.take(&e, now) {
		return
	}
	e.Time = now
	l.add(e, now, p == administration)
}

// add appends an event. The rate is that of now: an event that stands for others has the time of the
// last of them. Called with mu held.
func (l *Log) add(e Event, now time.Time, always bool) {
	r := &l.rings[e.Kind.part()]
	if s := now.Unix(); s != r.second {
		r.second, r.inSecond = s, 0
	}
	if r.inSecond >= perSecond && !always {
		l.stats.Suppressed += uint64(max(1, e.Count))
		r.beyond += max(1, e.Count)
		r.kind = e.Kind
		return
	}
	r.inSecond++
	l.seq++
	e.Seq = l.seq
	r.entries[r.n%uint64(len(r.entries))] = e
	r.n++
	if l.waiters > 0 {
		close(l.changed)
		l.changed = make(chan struct{})
		l.waiters = 0
	}
}

// flush adds what was beyond the rate in a second that is over, and the counts of equal events whose
// time has passed. Called with mu held.
func (l *Log) flush(now time.Time) {
	for i := range l.rings {
		if r := &l.rings[i]; r.beyond > 0 && now.Unix() != r.second {
			n := r.beyond
			r.beyond = 0
			l.add(Event{Time: now, Kind: r.kind, Severity: Info, Text: "others, too many within a second", Count: n}, now, false)
		}
	}
	for _, e := range l.folds.due(now) {
		l.add(e, now, false)
	}
}

// Last is the number of the last event.
func (l *Log) Last() uint64 {
	if l == nil {
		return 0
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.seq
}

// Stats are the counts so far.
func (l *Log) Stats() Stats {
	if l == nil {
		return Stats{}
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.stats
}

// After returns the events with a higher number, in order, at most limit of them, the oldest ones; 0: all.
func (l *Log) After(seq uint64, limit int) []Event {
	if l == nil {
		return nil
	}
	now := l.cfg.Now()
	l.mu.Lock()
	l.flush(now)
	var out []Event
	for i := range l.rings {
		for _, e := range l.rings[i].entries {
			if e.Seq > seq {
				out = append(out, e)
			}
		}
	}
	l.mu.Unlock()
	slices.SortFunc(out, func(a, b Event) int { return cmp.Compare(a.Seq, b.Seq) })
	if limit > 0 && len(out) > limit {
		out = out[:limit]
	}
	return out
}

// Newest returns the last events of each part, at most so many of one, in order from the newest.
func (l *Log) Newest(each int) []Event {
	if l == nil {
		return nil
	}
	now := l.cfg.Now()
	l.mu.Lock()
	defer l.mu.Unlock()
	l.flush(now)
	each = max(0, min(each, len(l.rings[0].entries)))
	out := make([]Event, 0, each*int(parts))
	var taken [parts]int
	for {
		var newest *Event
		from := 0
		for i := range l.rings {
			if e := l.rings[i].back(&taken[i], each); e != nil && (newest == nil || e.Seq > newest.Seq) {
				newest, from = e, i
			}
		}
		if newest == nil {
			return out
		}
		out = append(out, *newest)
		taken[from]++
	}
}

// back is the event so many places before the last one; nil: there is none up to a limit. Places
// without an event are passed over.
func (r *ring) back(n *int, limit int) *Event {
	size := uint64(len(r.entries))
	for ; *n < limit; *n++ {
		if e := &r.entries[(r.n+2*size-1-uint64(*n))%size]; e.Seq != 0 {
			return e
		}
	}
	return nil
}

// Wait returns when there is an event with a higher number, or ctx has ended.
func (l *Log) Wait(ctx context.Context, seq uint64) error {
	for {
		changed, due := l.watch(seq)
		if changed == nil {
			return nil
		}
		if err := l.await(ctx, changed, due); err != nil {
			return err
		}
	}
}

// watch returns nil if there is an event, or else what to wait for.
func (l *Log) watch(seq uint64) (changed <-chan struct{}, due time.Duration) {
	now := l.cfg.Now()
	l.mu.Lock()
	defer l.mu.Unlock()
	l.flush(now)
	if l.seq > seq {
		return nil, 0
	}
	l.waiters++
	due = l.folds.next(now)
	if slices.ContainsFunc(l.rings[:], func(r ring) bool { return r.beyond > 0 }) {
		due = time.Second
	}
	return l.changed, due
}

func (l *Log) await(ctx context.Context, changed <-chan struct{}, due time.Duration) error {
	var timer <-chan time.Time
	if due > 0 {
		t := time.NewTimer(due)
		defer t.Stop()
		timer = t.C
	}
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-changed:
	case <-timer:
	}
	return nil
}

// Begin records the start of a target, and before it that the last one did not stop.
func (l *Log) Begin(text string) {
	var last Event
	for _, e := range l.After(0, 0) {
		if e.Kind == Start || e.Kind == Stop {
			last = e
		}
	}
	if last.Kind == Start {
		l.Record(Event{Kind: Unclean, Severity: Warning,
			Text: "the target that was started at " + last.Time.Format(time.RFC3339) + " did not stop in order: it was killed, or the machine failed"})
	}
	l.Record(Event{Kind: Start, Severity: Info, Text: text})
}
