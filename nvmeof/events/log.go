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
	Entries int              // number of events, from 80 to 65000, rounded down to a multiple of 5; default 1280
	Now     func() time.Time // default: time.Now
	// Failed is called, in a goroutine of the log, with the error when writing to the file begins to fail, and with
	// nil when it succeeds again. Optional.
	Failed func(error)
}

// Bounds of [Config.Entries].
const (
	MinEntries     = 80
	MaxEntries     = 65000
	DefaultEntries = 1280
)

// A Log keeps the last events. Its methods may be called from any goroutine. Only Wait and Close block. A nil Log keeps
// nothing.
type Log struct {
	cfg   Config
	id    string
	run   string // distinguishes this process's numbers from those of earlier ones
	begun []run  // runs of the file, the last is the present one; none: the log is in memory only
	file  *file  // nil: the log is in memory only

	mu      sync.Mutex // held only while memory is copied; guards the following fields
	seq     uint64
	rings   [parts]ring
	folds   folds
	waiters int
	changed chan struct{} // closed at the next event, if waiters > 0
	stats   Stats
}

// Stats counts events that a log has lost.
type Stats struct {
	Suppressed uint64 // events beyond the rate
	Unwritten  uint64 // events that were not written to the file
	Damaged    int    // damaged records of the file, which were skipped
}

// A ring has the last events of a part.
type ring struct {
	entries  []Event
	n        uint64 // events recorded so far
	second   int64
	inSecond int
	beyond   int  // events beyond the rate that no recorded event counts yet
	kind     Kind // kind of the last of them
}

// perSecond is how many events of a part are recorded in one second.
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
	_, _ = rand.Read(id[:]) // never fails
	l.id = hex.EncodeToString(id[:])
	_, _ = rand.Read(id[:4])
	l.run = hex.EncodeToString(id[:4])
	return l
}

// ID returns an identifier of the log. Sequence numbers of logs with different IDs cannot be compared. The part
// before the dot belongs to the file; the part after it is new each time the log is opened.
func (l *Log) ID() string {
	if l == nil {
		return ""
	}
	return l.id + "." + l.run
}

// Resume returns the number after which all events are new to a client that has seen the events up to seq of the
// log with the given ID. Numbers of events that were not written before a restart are assigned again, so Resume
// returns a number below those. The file knows the last 16 starts; to a client from before them, all events are
// new. If id is empty, seq is a number of this process.
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

// Record adds an event, with the next number and the present time. It may count the event in an equal one, or drop
// it if there are too many; see the package documentation.
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

// add appends an event, whose time may be before now if it stands for others; the rate limit uses now. If always is
// set, the limit does not apply. The caller holds mu.
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

// flush records the count of events that exceeded the rate in a past second, and the counts of equal events whose
// time is over. The caller holds mu.
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

// Last returns the number of the last event.
func (l *Log) Last() uint64 {
	if l == nil {
		return 0
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.seq
}

// Stats returns the counts so far.
func (l *Log) Stats() Stats {
	if l == nil {
		return Stats{}
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.stats
}

// After returns the events with a number higher than seq, in order. If limit is not 0, it returns at most limit,
// the oldest ones.
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

// Newest returns the last events of each part, at most each of one part, the newest first.
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

// back returns the event that is *n places before the last one, or nil if *n reaches limit. It increments *n to
// skip empty places.
func (r *ring) back(n *int, limit int) *Event {
	size := uint64(len(r.entries))
	for ; *n < limit; *n++ {
		if e := &r.entries[(r.n+2*size-1-uint64(*n))%size]; e.Seq != 0 {
			return e
		}
	}
	return nil
}

// Wait returns nil when there is an event with a number higher than seq, or the error of ctx when that ends first.
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

// watch returns nil if there is an event after seq, else the channel to wait for. It also returns when a pending
// count is due; 0: none is.
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

// Begin records the start of a target. If the previous one did not stop in order, it first records that.
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
