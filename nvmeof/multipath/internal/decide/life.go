package decide

import (
	"fmt"
	"time"
)

// Timers are what a path's life goes by. They are complete: no field has a default.
type Timers struct {
	ReconnectDelay time.Duration // between two attempts, at most
	CtrlLoss       time.Duration // until a lost path is given up; negative: never
	FastIOFail     time.Duration // until requests stop to wait for a lost path; negative: never
}

// State is where in its life a path is.
type State uint8

const (
	Connecting State = iota // it never was live
	Live                    // it has a controller
	Lost                    // it had one, and tries to get another
	Deleting                // it goes, by the user's wish
	Dead                    // it is given up
)

var stateNames = [...]string{"connecting", "live", "lost", "deleting", "dead"}

func (s State) String() string {
	if int(s) < len(stateNames) {
		return stateNames[s]
	}
	return fmt.Sprintf("state %d", uint8(s))
}

// An Action is what the owner of a path has to do.
type Action uint8

const (
	Wait    Action = iota // until Wake, or until something happens
	Connect               // and call Connected or Failed
	End                   // nothing any more
)

// A Life is the life of one path. It has one owner, who calls its methods.
type Life struct {
	timers   Timers
	state    State
	since    time.Time // of the state
	lost     time.Time // when the controller was lost, or the first attempt began
	next     time.Time // the next attempt
	attempts int       // failed since lost
	refusals int       // of those the last ones, for reasons that somebody has to mend
	lives    uint64    // how often it became live
	err      error     // why it is not live, or was not the last time
}

// NewLife is a path whose first attempt is due.
func NewLife(t Timers, now time.Time) Life {
	return Life{timers: t, since: now, lost: now, next: now}
}

// Due is what to do now.
func (l *Life) Due(now time.Time) Action {
	switch l.state {
	case Deleting, Dead:
		return End
	case Live:
		return Wait
	}
	if at, ok := l.giveUpAt(); ok && !now.Before(at) {
		l.enter(Dead, now)
		return End
	}
	if now.Before(l.next) {
		return Wait
	}
	return Connect
}

// Wake is when Due will say something else than Wait, if nothing happens before.
// It is false for a path that waits for nothing.
func (l *Life) Wake() (time.Time, bool) {
	if l.state != Connecting && l.state != Lost {
		return time.Time{}, false
	}
	if at, ok := l.giveUpAt(); ok && at.Before(l.next) {
		return at, true
	}
	return l.next, true
}

// Connected is the end of an attempt that succeeded.
func (l *Life) Connected(now time.Time) {
	if l.ended() {
		return
	}
	l.lives++
	l.attempts, l.refusals = 0, 0
	l.enter(Live, now)
}

// Failed is the end of another. Refused is one that fails until somebody mends the
// cause. random is from [0, 1).
func (l *Life) Failed(now time.Time, err error, refused bool, random float64) {
	if l.ended() {
		return
	}
	l.err = err
	l.attempts++
	if l.refusals++; !refused {
		l.refusals = 0
	}
	l.next = now.Add(l.delay(random))
	l.Due(now) // it may be too late for another
}

// LostController is the end of a live path's controller.
func (l *Life) LostController(now time.Time, err error, random float64) {
	if l.state != Live {
		return
	}
	l.err, l.lost, l.attempts, l.refusals = err, now, 0, 0
	l.enter(Lost, now)
	l.next = now.Add(l.delay(random))
	l.Due(now)
}

// Spare is called when another path is live. One that never was is not given up then: it
// is as if it came now. Nor is one that was, if lost ones are kept: it is as if it was lost now.
func (l *Life) Spare(now time.Time, keepLost bool) {
	if l.state == Connecting || keepLost && l.state == Lost {
		l.lost = now
	}
}

// GiveUp is the end of an attempt after which no other can succeed.
func (l *Life) GiveUp(now time.Time, err error) {
	if !l.ended() {
		l.err = err
		l.enter(Dead, now)
	}
}

// Delete ends the path.
func (l *Life) Delete(now time.Time) {
	if !l.ended() {
		l.enter(Deleting, now)
	}
}

func (l *Life) ended() bool { return l.state == Deleting || l.state == Dead }

func (l *Life) enter(s State, now time.Time) { l.state, l.since = s, now }

// firstShare is which part of ReconnectDelay the first pause is: most losses are
// short. Each further one is twice as long, up to ReconnectDelay.
const firstShare = 10

// refusedDoublings is how often the pause of a path that never was live and is refused
// doubles, from ReconnectDelay on.
const refusedDoublings = 3

// delay is the pause before the next attempt, up to a quarter shorter by chance, so
// that the hosts of a target that returns do not come at once.
func (l *Life) delay(random float64) time.Duration {
	d := l.timers.ReconnectDelay
	switch {
	case l.refusals > 0 && l.lives == 0:
		d <<= min(l.refusals-1, refusedDoublings)
	case l.attempts < 4: // 1/10, 2/10, 4/10, 8/10
		d = d / firstShare << l.attempts
	}
	return d - time.Duration(random*float64(d)/4)
}

// giveUpAt is when the path is given up. One that was not tried yet is tried, however short the time.
func (l *Life) giveUpAt() (time.Time, bool) {
	if l.timers.CtrlLoss < 0 || l.state == Connecting && l.attempts == 0 {
		return time.Time{}, false
	}
	return l.lost.Add(l.timers.CtrlLoss), true
}

// State is where the path is, since when, and why it is not live or was not the
// last time.
func (l *Life) State() (s State, since time.Time, err error) { return l.state, l.since, l.err }

// Limit is when an attempt to connect is not waited for any more: when the path is
// given up. It is false where that is never, or where the path never was live.
func (l *Life) Limit() (time.Time, bool) {
	at, ok := l.giveUpAt()
	return at, ok && l.lives > 0
}

// Attempts is how many have failed since the path was last live.
func (l *Life) Attempts() int { return l.attempts }

// Refused reports whether the last attempt failed for a reason that somebody has to mend.
func (l *Life) Refused() bool { return l.refusals > 0 }

// Reconnects is how often the path became live again.
func (l *Life) Reconnects() uint64 { return max(l.lives, 1) - 1 }

// Hope says until when requests may wait for the path: for ever where the time is
// zero, and not at all where it is false.
func (l *Life) Hope() (until time.Time, ok bool) {
	switch {
	case l.ended():
		return time.Time{}, false
	case l.state == Live || l.timers.FastIOFail < 0:
		return time.Time{}, true
	}
	return l.lost.Add(l.timers.FastIOFail), true
}
