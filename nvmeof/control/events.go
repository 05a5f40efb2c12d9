package control

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"sync"
	"time"

	"github.com/nvmeof-go/nvmeof/nvmeof/config"
	"github.com/nvmeof-go/nvmeof/nvmeof/events"
)

// Events is a part of the log of events, in the form of the API: the oldest of those requested.
type Events struct {
	Log       string         `json:"log"` // log that the numbers belong to
	Events    []events.Event `json:"events"`
	Last      uint64         `json:"last"`      // number of the last event of the log
	Replaced  uint64         `json:"replaced"`  // number of requested events, up to the last one here, that the log no longer has
	Unwritten uint64         `json:"unwritten"` // number of events since the start that are not in the file
}

// Options of the query for events.
const (
	afterOption = "after"
	logOption   = "log"
	waitOption  = "wait"
)

const (
	maxFollowers = 32               // waiting calls with one token, and as many through the socket
	followTime   = 25 * time.Second // how long a call waits
	maxEvents    = 1000             // limit of one answer
)

var errFollowers = fmt.Errorf("%d other requests wait for events already: end one, or request events without wait", maxFollowers)

func eventRoutes() []route {
	return []route{
		{"GET", "/v1/events", "listEvents", "Get up to 1000 events with higher numbers than the given one; with wait, the response is sent when there is one, or after 25 s",
			[]string{afterOption, logOption, waitOption}, nil, Events{}, false,
			func(c *call) (any, error) {
				after, _ := strconv.ParseUint(c.query.Get(afterOption), 10, 64) // checkOption has checked it
				if !c.option(waitOption) {
					return eventsAfter(c.context, c.manager, after, c.query.Get(logOption), nil)
				}
				var who follower
				if c.who != nil {
					who = follower{remote: true, token: c.who.Name}
				}
				return eventsAfter(c.context, c.manager, after, c.query.Get(logOption), &who)
			}},
	}
}

// A follower is a client that waits for events. All clients of the socket are one follower, and so are all with the
// same token, so that no one takes the places of another.
type follower struct {
	remote bool
	token  string
}

// followers counts the waiting calls.
type followers struct {
	mu sync.Mutex
	n  map[follower]int // never 0
}

// enter counts a call that waits, and reports whether it may. If so, leave must be called later.
func (f *followers) enter(who follower) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.n == nil {
		f.n = map[follower]int{}
	}
	if f.n[who] >= maxFollowers {
		return false
	}
	f.n[who]++
	return true
}

func (f *followers) leave(who follower) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.n[who]--; f.n[who] == 0 {
		delete(f.n, who)
	}
}

// eventsAfter returns the events after a number of the log of. If who is not nil, it waits for one.
func eventsAfter(ctx context.Context, m *Manager, after uint64, of string, who *follower) (*Events, error) {
	l := m.cfg.Events
	if l == nil {
		return nil, errors.New("this target keeps no events")
	}
	after = l.Resume(of, after)
	if who != nil {
		if !m.followers.enter(*who) {
			return nil, errFollowers
		}
		ctx, cancel := context.WithTimeout(ctx, followTime)
		_ = l.Wait(ctx, after)
		cancel()
		m.followers.leave(*who)
	}
	out := &Events{Log: l.ID(), Events: listOf(l.After(after, maxEvents)), Last: l.Last(), Unwritten: l.Stats().Unwritten}
	if n := len(out.Events); n > 0 {
		out.Replaced = out.Events[n-1].Seq - after - uint64(n)
	}
	return out, nil
}

// maxChangeEvents is the number of simultaneous changes up to which each has an event; more have one in common.
const maxChangeEvents = 8

// noteChanges records events of changes.
func noteChanges(m *Manager, changes []config.Change) {
	if len(changes) > maxChangeEvents {
		m.cfg.Events.Record(events.Event{Kind: events.Change, Severity: events.Info,
			Text: fmt.Sprintf("%d changes: %v and others", len(changes), changes[0])})
		return
	}
	for _, c := range changes {
		m.cfg.Events.Record(events.Event{Kind: events.Change, Severity: events.Info, Subsystem: string(c.Subsystem), Text: c.String()})
	}
}

// note records an event; about has its subsystem, namespace and so on.
func note(m *Manager, k events.Kind, s events.Severity, about events.Event, text string) {
	about.Kind, about.Severity, about.Text = k, s, text
	m.cfg.Events.Record(about)
}

// event returns an event of the namespace, without kind and text.
func (at namespaceKey) event() events.Event {
	return events.Event{Subsystem: string(at.nqn), NSID: at.nsid}
}

// event returns an event of the host, without kind and text.
func (at hostKey) event() events.Event {
	return events.Event{Subsystem: string(at.nqn), Host: string(at.host)}
}
