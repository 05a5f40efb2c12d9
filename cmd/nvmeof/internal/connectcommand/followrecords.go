package connectcommand

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/nvmeof-go/nvmeof/cmd/nvmeof/internal/systemd"
	"github.com/nvmeof-go/nvmeof/nvmeof/discovery"
)

// An attempt is a record that is to be connected to.
type attempt struct {
	record discovery.Record
	when   time.Time
	pause  time.Duration
}

// Pauses between attempts to connect to a record.
const (
	firstAttempt = time.Second
	lastAttempt  = 5 * time.Minute
)

// loansInterval is how often processes that hold controllers for this one are asked whether they
// do still. One that does not answer takes a third of it.
const loansInterval = 15 * time.Second

// follow stays connected to discovery controllers, and connects to what they list,
// until the command is interrupted.
func (a *autoconnect) follow(seeds []discovery.Endpoint) error {
	ctx := a.cmd.Context()
	f := a.find(true, seeds)
	defer func() {
		for range f.events { // until it has ended
		}
	}()
	systemd.Notify("READY=1")
	defer systemd.Notify("STOPPING=1")
	loans := time.NewTicker(loansInterval)
	defer loans.Stop()
	var todo []attempt
	for {
		todo, a.again = append(todo, a.again...), nil
		select {
		case <-ctx.Done():
			return nil
		case e, ok := <-f.events:
			if !ok {
				return nil // ctx has ended
			}
			todo = a.change(todo, &e)
		case <-time.After(nextAttempt(todo)):
			todo = a.attempt(todo)
		case <-loans.C:
			todo = append(todo, a.orphaned()...)
		case <-a.keeper.Ended:
			a.ended(a.keeper.Gone())
			todo = append(todo, a.orphaned()...)
		}
	}
}

// change keeps the attempts as the records are.
func (a *autoconnect) change(todo []attempt, e *discovery.Event) []attempt {
	switch e.Kind {
	case discovery.Added:
		return append(todo, attempt{record: e.Record, when: time.Now()})
	case discovery.Removed:
		maps.DeleteFunc(a.connected, func(_ string, r discovery.Record) bool { return r.Same(&e.Record) })
		return slices.DeleteFunc(todo, func(t attempt) bool { return t.record.Same(&e.Record) })
	case discovery.Unreachable, discovery.Skipped:
		fmt.Fprintln(a.cmd.ErrOrStderr(), "nvmeof:", e)
	}
	return todo
}

// ended has the records connected to again whose controllers were given up, after --ctrl-loss-tmo say, though
// they are listed still.
func (a *autoconnect) ended(gone map[string]error) {
	for name, why := range gone {
		r, ok := a.connected[name]
		delete(a.connected, name)
		if ok && why != nil { // not as somebody wanted
			a.again = append(a.again, attempt{record: r, when: time.Now().Add(firstAttempt), pause: firstAttempt})
		}
	}
}

// orphaned are the records whose controllers another process held, which has ended or has given
// them up.
func (a *autoconnect) orphaned() (todo []attempt) {
	for _, o := range a.keeper.Orphans(a.cmd.Context()) {
		r, ok := a.connected[o.Name]
		delete(a.connected, o.Name)
		if o.Err == nil { // as somebody wanted
			continue
		}
		fmt.Fprintf(a.cmd.ErrOrStderr(), "nvmeof: %s: %v\n", o.Name, o.Err)
		if ok {
			todo = append(todo, attempt{record: r, when: time.Now()})
		}
	}
	return todo
}

// nextAttempt is how long until there may be something to do.
func nextAttempt(todo []attempt) time.Duration {
	next := 5 * time.Second
	for i := range todo {
		next = min(next, time.Until(todo[i].when))
	}
	return next
}

// attempt makes one that is due; what fails is tried again later, if that may be another time. One that
// changes is removed and added.
func (a *autoconnect) attempt(todo []attempt) []attempt {
	i := slices.IndexFunc(todo, func(t attempt) bool { return !t.when.After(time.Now()) })
	if i < 0 {
		return todo
	}
	t := todo[i]
	todo = slices.Delete(todo, i, i+1)
	switch err := a.connectRecord(&t.record); {
	case err == nil || a.cmd.Context().Err() != nil:
	case errors.As(err, new(*unusableError)):
		fmt.Fprintf(a.cmd.ErrOrStderr(), "nvmeof: %v; the record is ignored until it changes\n", err)
	default:
		t.pause = min(max(2*t.pause, firstAttempt), lastAttempt)
		t.when = time.Now().Add(t.pause)
		fmt.Fprintf(a.cmd.ErrOrStderr(), "nvmeof: %v; retrying in %v\n", err, t.pause)
		todo = append(todo, t)
	}
	return todo
}
