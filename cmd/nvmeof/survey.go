package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/spf13/cobra"

	"github.com/nvmeof-go/nvmeof/cmd/nvmeof/internal/failure"
	"github.com/nvmeof-go/nvmeof/cmd/nvmeof/internal/hostconfig"
	"github.com/nvmeof-go/nvmeof/nvmeof/discovery"
	"github.com/nvmeof-go/nvmeof/nvmeof/host"
)

// survey reads the logs of several discovery controllers, or follows them.
func (f *finder) survey(cmd *cobra.Command, entries []hostconfig.Entry, show func(*host.DiscoveryLog) error) (err error) {
	s := &survey{hosts: &hosts{warn: cmd.ErrOrStderr()}}
	defer func() { err = errors.Join(err, s.hosts.close()) }()
	seeds, err := s.seeds(entries, settings(cmd))
	if len(seeds) == 0 {
		return err
	}
	config := discovery.Config{Persistent: f.persistent, Depth: -1, Attempts: 1}
	if f.persistent {
		config.Depth = 0 // the default
	}
	known := map[discovery.Endpoint]bool{}
	config.Event = func(e discovery.Event) {
		switch {
		case e.Kind == discovery.Logged && !known[e.At]:
			known[e.At] = true
			err = errors.Join(err, show(&host.DiscoveryLog{Generation: e.Log.Generation, Entries: e.Log.Entries}))
		case e.Kind == discovery.Logged, e.Kind == discovery.Skipped && !f.persistent:
		case e.Kind == discovery.Added || e.Kind == discovery.Removed:
			if f.persistent {
				err = errors.Join(err, tellChange(cmd.OutOrStdout(), f.format, &e))
			}
		default:
			fmt.Fprintln(cmd.ErrOrStderr(), "nvmeof:", e)
		}
	}
	failed := discovery.Run(cmd.Context(), config, s.dialer(), seeds...)
	if failed != nil && !errors.Is(failed, context.Canceled) {
		failed = &failure.Connect{Err: failed}
	}
	return errors.Join(err, failed)
}

// tellChange prints an event, in JSON one object a line.
func tellChange(w io.Writer, format string, e *discovery.Event) error {
	if format != "json" {
		_, err := fmt.Fprintln(w, e)
		return err
	}
	r := &e.Record
	return json.NewEncoder(w).Encode(change{e.Kind.String(), r.Entry.TRTYPE.String(), r.Traddr(), r.Trsvcid(), r.NQN()})
}

// A change is a line of discover --persistent -o json.
type change struct {
	Event   string `json:"event"` // added or removed
	TRTYPE  string `json:"trtype"`
	Traddr  string `json:"traddr"`
	Trsvcid string `json:"trsvcid"`
	SubNQN  string `json:"subnqn"`
}

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

// follow stays connected to discovery controllers, and connects to what they list,
// until the command is interrupted.
func (a *autoconnect) follow(seeds []discovery.Endpoint) error {
	ctx := a.cmd.Context()
	changes := make(chan discovery.Event)
	var wait sync.WaitGroup
	wait.Go(func() { // ends with ctx
		_ = discovery.Run(ctx, discovery.Config{Persistent: true, Event: func(e discovery.Event) {
			select {
			case changes <- e:
			case <-ctx.Done():
			}
		}}, a.survey.dialer(), seeds...) // nil
	})
	defer wait.Wait()
	tellManager("READY=1")
	defer tellManager("STOPPING=1")
	var todo []attempt
	for {
		select {
		case <-ctx.Done():
			return nil
		case e := <-changes:
			todo = a.change(todo, &e)
		case <-time.After(nextAttempt(todo)):
			todo = a.attempt(append(todo, a.givenUp()...))
		case <-a.keeper.owners.ended:
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

// givenUp are the records whose controllers were given up after --ctrl-loss-tmo, though
// they are listed still.
func (a *autoconnect) givenUp() (todo []attempt) {
	for name := range a.keeper.holder.Info().Lost {
		if r, ok := a.connected[name]; ok {
			delete(a.connected, name)
			todo = append(todo, attempt{record: r, when: time.Now().Add(firstAttempt), pause: firstAttempt})
		}
	}
	return todo
}

// orphaned are the records whose controllers another process held, which has ended.
func (a *autoconnect) orphaned() (todo []attempt) {
	for _, name := range a.keeper.orphans(a.cmd.Context()) {
		fmt.Fprintf(a.cmd.ErrOrStderr(), "nvmeof: %s: %v\n", name, errOwnerEnded)
		if r, ok := a.connected[name]; ok {
			delete(a.connected, name)
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

// attempt makes one that is due; what fails is tried again later.
func (a *autoconnect) attempt(todo []attempt) []attempt {
	i := slices.IndexFunc(todo, func(t attempt) bool { return !t.when.After(time.Now()) })
	if i < 0 {
		return todo
	}
	t := todo[i]
	todo = slices.Delete(todo, i, i+1)
	if err := a.connectRecord(&t.record); err != nil && a.cmd.Context().Err() == nil {
		t.pause = min(max(2*t.pause, firstAttempt), lastAttempt)
		t.when = time.Now().Add(t.pause)
		fmt.Fprintf(a.cmd.ErrOrStderr(), "nvmeof: %v; again in %v\n", err, t.pause)
		todo = append(todo, t)
	}
	return todo
}
