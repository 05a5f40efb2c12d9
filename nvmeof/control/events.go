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

// Events are what happened to a target, as the API shows it: the oldest ones of those that were
// asked for.
type Events struct {
	Log       string         `json:"log"` // which the numbers are of
	Events    []events.Event `json:"events"`
	Last      uint64         `json:"last"`      // number of the last event of all
	Replaced  uint64         `json:"replaced"`  // how many of those asked for, and before the last one here, are kept no more
	Unwritten uint64         `json:"unwritten"` // events since the start that are not in the file
}

// Options of the query for events.
const (
	afterOption = "after"
	logOption   = "log"
	waitOption  = "wait"
)

const (
	maxFollowers = 32               // calls that wait with one token, and as many through the socket
	followTime   = 25 * time.Second // that a call waits
	maxEvents    = 1000             // of one answer
)

var errFollowers = fmt.Errorf("%d others wait for events already: end one, or ask without wait", maxFollowers)

func eventRoutes() []route {
	return []route{
		{"GET", "/v1/events", "listEvents", "Get up to 1000 events after a number; with wait, when there is one or after 25 s",
			[]string{afterOption, logOption, waitOption}, nil, Events{}, false,
			func(c *call) (any, error) {
				after, _ := strconv.ParseUint(c.query.Get(afterOption), 10, 64) // it was checked
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

// A follower is who waits for events: those who come through the socket are one, and those who have a token are, so that
// none takes the places of another.
type follower struct {
	remote bool
	token  string
}

// followers count the calls that wait.
type followers struct {
	mu sync.Mutex
	n  map[follower]int // none is 0
}

// enter counts a call, if it may wait: until leave.
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

// eventsAfter are those after a number of a log. The call waits if it is a follower's.
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

// maxChangeEvents is how many changes at a time have an event each: others are one event.
const maxChangeEvents = 8

// noteChanges records what was changed.
func noteChanges(m *Manager, changes []config.Change) {
	if len(changes) > maxChangeEvents {
		m.cfg.Events.Record(events.Event{Kind: events.Change, Severity: events.Info,
			Text: fmt.Sprintf("%d changes: %v, and others", len(changes), changes[0])})
		return
	}
	for _, c := range changes {
		m.cfg.Events.Record(events.Event{Kind: events.Change, Severity: events.Info, Subsystem: string(c.Subsystem), Text: c.String()})
	}
}

// note records an event of what a target waits for.
func note(m *Manager, k events.Kind, s events.Severity, about events.Event, text string) {
	about.Kind, about.Severity, about.Text = k, s, text
	m.cfg.Events.Record(about)
}

// event is one of the namespace, without what happened.
func (at namespaceKey) event() events.Event {
	return events.Event{Subsystem: string(at.nqn), NSID: at.nsid}
}

// event is one of the host, without what happened.
func (at hostKey) event() events.Event {
	return events.Event{Subsystem: string(at.nqn), Host: string(at.host)}
}
