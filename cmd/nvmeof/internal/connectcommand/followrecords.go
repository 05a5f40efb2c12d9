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

// An attempt is a pending attempt to connect to a record.
type attempt struct {
	record discovery.Record
	when   time.Time
	pause  time.Duration
}

// Delays between attempts to connect to a record.
const (
	firstAttempt = time.Second
	lastAttempt  = 5 * time.Minute
)

// loansInterval is the interval at which the processes that hold controllers for this one are queried. A process that
// does not answer takes a third of it.
const loansInterval = 15 * time.Second

// follow stays connected to discovery controllers, and connects to the subsystems that they list, until the command is
// interrupted.
func (a *autoconnect) follow(seeds []discovery.Endpoint) error {
	ctx := a.cmd.Context()
	f := a.find(true, seeds)
	defer func() {
		for range f.events { // until the search has ended
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

// change updates the attempts after a change of the records.
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

// ended schedules attempts for records that are still listed and whose controllers were given up, for example after
// --ctrl-loss-tmo.
func (a *autoconnect) ended(gone map[string]error) {
	for name, why := range gone {
		r, ok := a.connected[name]
		delete(a.connected, name)
		if ok && why != nil { // not disconnected on request
			a.again = append(a.again, attempt{record: r, when: time.Now().Add(firstAttempt), pause: firstAttempt})
		}
	}
}

// orphaned returns attempts for the records whose controllers another process held until it ended or gave them up.
func (a *autoconnect) orphaned() (todo []attempt) {
	for _, o := range a.keeper.Orphans(a.cmd.Context()) {
		r, ok := a.connected[o.Name]
		delete(a.connected, o.Name)
		if o.Err == nil { // disconnected on request
			continue
		}
		fmt.Fprintf(a.cmd.ErrOrStderr(), "nvmeof: %s: %v\n", o.Name, o.Err)
		if ok {
			todo = append(todo, attempt{record: r, when: time.Now()})
		}
	}
	return todo
}

// nextAttempt returns the time until the next attempt is due.
func nextAttempt(todo []attempt) time.Duration {
	next := 5 * time.Second
	for i := range todo {
		next = min(next, time.Until(todo[i].when))
	}
	return next
}

// attempt makes one attempt that is due. After a failure it schedules the next one, unless the record is unusable. A
// record that changes is reported as removed and added.
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
