package discovery

import (
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/nvmeof-go/nvmeof/capsule"
	"github.com/nvmeof-go/nvmeof/nvmeof/host"
)

// Config says how to discover. A zero field takes the default.
type Config struct {
	// Persistent keeps connections until the end, to get notice of changes. Without it
	// each log is read once.
	Persistent bool

	Depth       int // how many referrals after each other are followed; default 8, negative: none
	Controllers int // how many discovery controllers are followed at a time; default 128

	Attempts int           // without Persistent: how often a controller is tried that refuses or is lost; default 2
	MinPause time.Duration // before a controller is tried again the first time; default 1 s
	MaxPause time.Duration // to which that grows, doubling; default 5 min
	Poll     time.Duration // how often a log is read of whose changes nobody tells; default 1 min
	Timeout  time.Duration // of connecting to a controller and reading its log; default 30 s

	// Event is told what happens, in order, by Run itself, which waits meanwhile.
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

// A Kind is what an Event tells.
type Kind uint8

const (
	// Added and Removed change the set of records; Removed carries the record as it
	// was told last.
	Added Kind = iota
	Removed
	// Logged is a log that was read: its records that are new follow, then those
	// that are gone.
	Logged
	// Unreachable is a controller that was not connected to or is lost, with the
	// reason, and when it is tried again; 0: never.
	Unreachable
	// Skipped is a referral that is not followed, with the reason.
	Skipped
)

var kindNames = [...]string{"added", "removed", "log", "unreachable", "skipped"}

func (k Kind) String() string { return kindNames[k] }

// An Event is told to Config.Event.
type Event struct {
	Kind   Kind
	At     Endpoint // but for Added and Removed
	Record Record   // Added, Removed; Skipped: the referral
	Err    error    // Unreachable, Skipped
	Again  time.Duration
	Log    Log // Logged
}

// A Log is what one controller tells.
type Log struct {
	Generation uint64
	Entries    []capsule.DiscoveryEntry
}

// placed is the error, which says once of which controller it is.
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
