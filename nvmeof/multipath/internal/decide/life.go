package decide

import (
	"fmt"
	"time"
)

// Timers control a path's state machine. No field has a default.
type Timers struct {
	ReconnectDelay time.Duration // maximum pause between two attempts
	CtrlLoss       time.Duration // until a lost path is given up; negative: never
	FastIOFail     time.Duration // until requests stop waiting for a lost path; negative: never
}

// State is the state of a path.
type State uint8

const (
	Connecting State = iota // it has never been live
	Live                    // it has a controller
	Lost                    // it had a controller, and reconnects
	Deleting                // it is being deleted by the user
	Dead                    // it was given up
)

var stateNames = [...]string{"connecting", "live", "lost", "deleting", "dead"}

func (s State) String() string {
	if int(s) < len(stateNames) {
		return stateNames[s]
	}
	return fmt.Sprintf("state %d", uint8(s))
}

// An Action is what the owner of a path must do.
type Action uint8

const (
	Wait    Action = iota // until Wake, or until something happens
	Connect               // then call Connected or Failed
	End                   // nothing any more
)

// A Life is the state machine of one path. One owner calls its methods.
type Life struct {
	timers   Timers
	state    State
	since    time.Time // when the state began
	lost     time.Time // when the controller was lost, or the first attempt began
	next     time.Time // the next attempt
	attempts int       // failed attempts since lost
	refusals int       // number of consecutive last failures that will repeat until something is changed
	lives    uint64    // how often it became live
	err      error     // why it is not live, or was not the last time
}

// NewLife returns the Life of a path whose first attempt is due.
func NewLife(t Timers, now time.Time) Life {
	return Life{timers: t, since: now, lost: now, next: now}
}

// Due returns what to do now.
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

// Wake returns when Due will return something other than Wait, if nothing happens before. It returns false for a path
// that waits for nothing.
func (l *Life) Wake() (time.Time, bool) {
	if l.state != Connecting && l.state != Lost {
		return time.Time{}, false
	}
	if at, ok := l.giveUpAt(); ok && at.Before(l.next) {
		return at, true
	}
	return l.next, true
}

// Connected records that an attempt succeeded.
func (l *Life) Connected(now time.Time) {
	if l.ended() {
		return
	}
	l.lives++
	l.attempts, l.refusals = 0, 0
	l.enter(Live, now)
}

// Failed records that an attempt failed. refused says that attempts will fail until something is changed. random is in
// [0, 1).
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
	l.Due(now) // it may be time to give up
}

// LostController records that a live path's controller was lost.
func (l *Life) LostController(now time.Time, err error, random float64) {
	if l.state != Live {
		return
	}
	l.err, l.lost, l.attempts, l.refusals = err, now, 0, 0
	l.enter(Lost, now)
	l.next = now.Add(l.delay(random))
	l.Due(now)
}

// Spare is called while another path is live. A path that has never been live is not given up then: its time starts
// now. Nor, with keepLost, is one that was live: it counts as lost now.
func (l *Life) Spare(now time.Time, keepLost bool) {
	if l.state == Connecting || keepLost && l.state == Lost {
		l.lost = now
	}
}

// GiveUp records a failure after which no attempt can succeed.
func (l *Life) GiveUp(now time.Time, err error) {
	if !l.ended() {
		l.err = err
		l.enter(Dead, now)
	}
}

// Delete begins the deletion of the path.
func (l *Life) Delete(now time.Time) {
	if !l.ended() {
		l.enter(Deleting, now)
	}
}

func (l *Life) ended() bool { return l.state == Deleting || l.state == Dead }

func (l *Life) enter(s State, now time.Time) { l.state, l.since = s, now }

// firstShare is the divisor of ReconnectDelay for the first pause, which is short because most losses are. Each further
// pause is twice as long, up to ReconnectDelay.
const firstShare = 10

// refusedDoublings is how often the pause of a path doubles, starting at ReconnectDelay, if it has never been live and
// is refused.
const refusedDoublings = 3

// delay returns the pause before the next attempt, shortened at random by up to a quarter, so that the hosts of a
// target that restarts do not all reconnect at once.
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

// giveUpAt returns when the path is given up. A new path is tried at least once, however short the time.
func (l *Life) giveUpAt() (time.Time, bool) {
	if l.timers.CtrlLoss < 0 || l.state == Connecting && l.attempts == 0 {
		return time.Time{}, false
	}
	return l.lost.Add(l.timers.CtrlLoss), true
}

// State returns the state, since when it lasts, and why the path is not live or was not the last time.
func (l *Life) State() (s State, since time.Time, err error) { return l.state, l.since, l.err }

// Limit returns when a connection attempt is no longer waited for, because the path is given up. It returns false if
// that never happens, or the path has never been live.
func (l *Life) Limit() (time.Time, bool) {
	at, ok := l.giveUpAt()
	return at, ok && l.lives > 0
}

// Attempts returns how many attempts have failed since the path was last live.
func (l *Life) Attempts() int { return l.attempts }

// Refused reports whether the last attempt failed for a reason that lasts until something is changed.
func (l *Life) Refused() bool { return l.refusals > 0 }

// Reconnects returns how often the path became live again.
func (l *Life) Reconnects() uint64 { return max(l.lives, 1) - 1 }

// Hope returns until when requests may wait for the path: without limit if the time is zero, and not at all if ok is
// false.
func (l *Life) Hope() (until time.Time, ok bool) {
	switch {
	case l.ended():
		return time.Time{}, false
	case l.state == Live || l.timers.FastIOFail < 0:
		return time.Time{}, true
	}
	return l.lost.Add(l.timers.FastIOFail), true
}
