package discovery

import (
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/nvmeof-go/nvmeof/capsule"
	"github.com/nvmeof-go/nvmeof/nvmeof/host"
)

// Config says how to discover. Fields that are zero take their defaults.
type Config struct {
	// Persistent keeps connections until Run ends, to be notified of changes. Without it, each log is read once.
	Persistent bool

	Depth       int // maximum number of successive referrals that are followed; default 8, negative: none
	Controllers int // maximum number of discovery controllers followed at a time; default 128

	Attempts int           // without Persistent: maximum attempts for a controller that refuses or is lost; default 2
	MinPause time.Duration // before the second attempt; default 1 s
	MaxPause time.Duration // maximum pause, which doubles with each attempt; default 5 min
	Poll     time.Duration // how often a log is read if the controller does not report changes; default 1 min
	Timeout  time.Duration // of connecting to a controller and reading its log; default 30 s

	// Event is called for each event, in order. Run calls it itself, and waits for it.
	Event func(Event)
}

func (c Config) complete() Config {
	c.Depth = or(c.Depth, 8)
	c.Controllers = or(c.Controllers, 128)
	c.Attempts = or(c.Attempts, 2)
	c.MinPause = or(c.MinPause, time.Second)
	c.MaxPause = or(c.MaxPause, 5*time.Minute)
	c.Poll = or(c.Poll, time.Minute)
	c.Timeout = or(c.Timeout, 30*time.Second)
	if c.Event == nil {
		c.Event = func(Event) {}
	}
	return c
}

func or[T int | time.Duration](v, fallback T) T {
	switch {
	case v == 0:
		return fallback
	case v < 0:
		return 0
	}
	return v
}

// A Kind is the kind of an Event.
type Kind uint8

const (
	// Added and Removed change the set of records. Removed has the record as last reported.
	Added Kind = iota
	Removed
	// Logged reports that a log was read. Events for its new records follow, then those for removed records.
	Logged
	// Unreachable reports a controller that could not be connected to or was lost, with the reason, and after what time
	// it will be tried again; 0: never.
	Unreachable
	// Skipped reports a referral that is not followed, with the reason.
	Skipped
)

var kindNames = [...]string{"added", "removed", "log", "unreachable", "skipped"}

func (k Kind) String() string { return kindNames[k] }

// An Event is passed to Config.Event.
type Event struct {
	Kind   Kind
	At     Endpoint // all kinds but Added and Removed
	Record Record   // Added, Removed; Skipped: the referral
	Err    error    // Unreachable, Skipped
	Again  time.Duration
	Log    Log // Logged
}

// A Log is the discovery log of one controller.
type Log struct {
	Generation uint64
	Entries    []capsule.DiscoveryEntry
}

// placed returns the error, with the controller's address once.
func (e *Event) placed() error {
	var connect *host.ConnectError
	if errors.As(e.Err, &connect) && strings.HasPrefix(e.Err.Error(), e.At.String()+": ") {
		return e.Err
	}
	return fmt.Errorf("%v: %w", e.At, e.Err)
}

func (e Event) String() string {
	switch e.Kind {
	case Added, Removed:
		return fmt.Sprintf("%v %v", e.Kind, &e.Record)
	case Unreachable:
		if e.Again > 0 {
			return fmt.Sprintf("%v %v; retrying in %v", e.Kind, e.placed(), e.Again)
		}
		return fmt.Sprintf("%v %v", e.Kind, e.placed())
	case Skipped:
		return fmt.Sprintf("%v at %v: %v: %v", e.Kind, e.At, &e.Record, e.Err)
	}
	return fmt.Sprintf("%v of %v: generation %d, %d records", e.Kind, e.At, e.Log.Generation, len(e.Log.Entries))
}
