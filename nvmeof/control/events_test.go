package control

import (
	"net/url"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/nvmeof-go/nvmeof/nvmeof/config"
	"github.com/nvmeof-go/nvmeof/nvmeof/events"
)

// TestFollowers: only so many calls wait at a time; an event ends them.
func TestFollowers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := events.New(events.Config{})
		m := &Manager{cfg: Config{Events: l}}
		a, b := follower{true, "a"}, follower{true, "b"}
		answers := make(chan *Events, maxFollowers)
		for range maxFollowers {
			go func() {
				e, err := eventsAfter(t.Context(), m, 0, l.ID(), &a)
				if err != nil {
					t.Error(err)
				}
				answers <- e
			}()
		}
		synctest.Wait()
		if _, err := eventsAfter(t.Context(), m, 0, "", &a); err != errFollowers {
			t.Errorf("one more: %v", err)
		}
		go func() { // one token does not affect another
			if _, err := eventsAfter(t.Context(), m, 0, l.ID(), &b); err != nil {
				t.Error(err)
			}
		}()
		go func() { // clients on the network do not affect those of the socket
			c := &call{context: t.Context(), manager: m, query: url.Values{waitOption: {"true"}, logOption: {l.ID()}}}
			if _, err := eventRoutes()[0].serve(c); err != nil {
				t.Error(err)
			}
		}()
		synctest.Wait()
		note(m, events.Store, events.Error, namespaceKey{"a", 1}.event(), "failed")
		for range maxFollowers {
			if e := <-answers; len(e.Events) != 1 || e.Events[0].Subsystem != "a" || e.Replaced != 0 {
				t.Errorf("%+v", e)
			}
		}
		synctest.Wait()
		if n := m.followers.n; len(n) > 0 {
			t.Errorf("when nobody waits there are %v", n)
		}
	})
}

// TestEventsOfAnotherLog: a client that knows another log gets all events.
func TestEventsOfAnotherLog(t *testing.T) {
	l := events.New(events.Config{})
	m := &Manager{cfg: Config{Events: l}}
	noteChanges(m, make([]config.Change, maxChangeEvents+1))
	noteChanges(m, make([]config.Change, 2))
	for _, x := range []struct {
		after uint64
		log   string
		want  int
	}{{0, "", 3}, {1, l.ID(), 2}, {1, "another", 3}, {99, l.ID(), 3}, {3, l.ID(), 0}} {
		e, err := eventsAfter(t.Context(), m, x.after, x.log, nil)
		if err != nil || len(e.Events) != x.want || e.Last != 3 {
			t.Errorf("after %d of %s: %+v, %v", x.after, x.log, e, err)
		}
	}
	if _, err := eventsAfter(t.Context(), new(Manager), 0, "", nil); err == nil {
		t.Error("events of a target that keeps none")
	}
}

// TestEventOptions checks the errors of invalid options.
func TestEventOptions(t *testing.T) {
	r := newAPIRig(t)
	for _, o := range []string{"after=x", "after=-1", "wait=1", "log=" + strings.Repeat("x", 65), "nothing"} {
		err := r.client.Do(t.Context(), "GET", "/v1/events", []string{o}, nil, nil)
		if err == nil || !strings.Contains(err.Error(), "option") {
			t.Errorf("%s: %v", o, err)
		}
	}
}
