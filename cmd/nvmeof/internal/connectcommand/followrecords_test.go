package connectcommand

import (
	"bytes"
	"context"
	"errors"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/spf13/cobra"

	"github.com/nvmeof-go/nvmeof/capsule"
	"github.com/nvmeof-go/nvmeof/cmd/nvmeof/internal/discover"
	"github.com/nvmeof-go/nvmeof/cmd/nvmeof/internal/hostconfig"
	"github.com/nvmeof-go/nvmeof/nvmeof"
	"github.com/nvmeof-go/nvmeof/nvmeof/discovery"
)

// record returns a record to which no connection succeeds, since the host has no identity: see newAutoconnect.
func record(nqn string) (r discovery.Record) {
	r.Entry.TRTYPE, r.Entry.ADRFAM = capsule.TransportRDMA, capsule.FamilyIPv4
	capsule.PutText(r.Entry.TRADDR[:], "192.0.2.1")
	capsule.PutText(r.Entry.TRSVCID[:], "4420")
	capsule.PutText(r.Entry.SubNQN[:], nqn)
	return r
}

// newAutoconnect returns an autoconnect for a host without an identity, whose errors go to errOut.
func newAutoconnect(ctx context.Context, errOut *bytes.Buffer) *autoconnect {
	cmd := &cobra.Command{}
	cmd.SetContext(ctx)
	cmd.SetErr(errOut)
	a := &autoconnect{cmd: cmd, survey: &discover.Survey{}, connected: map[string]discovery.Record{}}
	_, err := a.survey.Seeds([]hostconfig.Entry{{Discovery: true, Options: hostconfig.Options{
		"transport": "rdma", "traddr": "192.0.2.1", "nqn": string(nvmeof.DiscoveryNQN), "hostnqn": "a", "hostid": "none",
	}}}, nil)
	if err != nil {
		panic(err) // these options are valid
	}
	return a
}

// TestAttempts checks that a record to which connecting fails is tried again after growing delays, and that other
// records are tried meanwhile.
func TestAttempts(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var errOut bytes.Buffer
		a := newAutoconnect(t.Context(), &errOut)
		todo := a.change(nil, &discovery.Event{Kind: discovery.Added, Record: record("a")})
		if next := nextAttempt(todo); next > 0 {
			t.Errorf("a new record waits for %v", next)
		}
		for pause := firstAttempt; pause < 4*lastAttempt; pause *= 2 {
			todo = a.attempt(todo)
			if next := nextAttempt(todo); len(todo) != 1 || todo[0].pause != min(pause, lastAttempt) || next != min(pause, 5*time.Second) {
				t.Fatalf("%d attempts after %v, want one after %v; the next look is after %v", len(todo), todo[0].pause, pause, next)
			}
			if len(a.attempt(todo)) != 1 || errOut.Len() == 0 {
				t.Error("it is not tried when it is due, or with no word")
			}
			errOut.Reset()
			other := a.attempt(append(todo[:1:1], attempt{record: record("b"), when: time.Now()}))
			if len(other) != 2 || other[1].pause != firstAttempt {
				t.Errorf("another one that is due is not tried: %+v", other)
			}
			errOut.Reset()
			time.Sleep(todo[0].pause)
		}
	})
}

// TestUnusable checks that a record to which no connection is possible is reported once and not tried again, unless it
// changes.
func TestUnusable(t *testing.T) {
	other := func(change func(*capsule.DiscoveryEntry)) discovery.Record {
		r := record("a")
		change(&r.Entry)
		return r
	}
	for name, r := range map[string]discovery.Record{
		"another transport": other(func(e *capsule.DiscoveryEntry) { e.TRTYPE = capsule.TransportTCP }),
		"no address":        other(func(e *capsule.DiscoveryEntry) { capsule.PutText(e.TRADDR[:], "x") }),
		"no port":           other(func(e *capsule.DiscoveryEntry) { capsule.PutText(e.TRSVCID[:], "none") }),
		"multicast":         other(func(e *capsule.DiscoveryEntry) { capsule.PutText(e.TRADDR[:], "224.0.0.1") }),
		"link-local": other(func(e *capsule.DiscoveryEntry) {
			e.ADRFAM = capsule.FamilyIPv6
			capsule.PutText(e.TRADDR[:], "fe80::1")
		}),
		"no name":           record(""),
		"a name of control": record("a\x01"),
		"a name too long":   record(strings.Repeat("a", 224)),
		"discovery":         record(string(nvmeof.DiscoveryNQN)),
	} {
		synctest.Test(t, func(t *testing.T) {
			var errOut bytes.Buffer
			a := newAutoconnect(t.Context(), &errOut)
			var todo []attempt
			for want := 1; want < 3; want++ {
				todo = a.change(todo, &discovery.Event{Kind: discovery.Added, Record: r})
				for range 100 {
					todo = a.attempt(todo)
					time.Sleep(nextAttempt(todo))
				}
				if n := strings.Count(errOut.String(), "; the record is ignored until it changes\n"); n != want || strings.Count(errOut.String(), "\n") != n || len(todo) > 0 {
					t.Errorf("%s: %d attempts are left; it prints %q", name, len(todo), &errOut)
				}
				todo = a.change(todo, &discovery.Event{Kind: discovery.Removed, Record: r})
			}
		})
	}
}

// TestRemovedRecord checks that a record that was removed is not tried again, even if its controller is lost.
func TestRemovedRecord(t *testing.T) {
	var errOut bytes.Buffer
	a := newAutoconnect(t.Context(), &errOut)
	one, other := record("a"), record("b")
	todo := []attempt{{record: one}, {record: other}}
	a.connected["nvme0"], a.connected["nvme1"] = one, other
	todo = a.change(todo, &discovery.Event{Kind: discovery.Removed, Record: one})
	if len(todo) != 1 || !todo[0].record.Same(&other) {
		t.Errorf("to be tried: %+v", todo)
	}
	if _, still := a.connected["nvme0"]; still || len(a.connected) != 1 {
		t.Errorf("connected: %v", a.connected)
	}
	if todo = a.change(todo, &discovery.Event{Kind: discovery.Unreachable, Err: context.DeadlineExceeded}); len(todo) != 1 || errOut.Len() == 0 {
		t.Errorf("%d to be tried after a controller was unreachable; it prints %q", len(todo), &errOut)
	}
}

// TestEnded checks that a controller that was given up is connected again, and one that was disconnected on request is
// not, even if a later controller of that name is given up.
func TestEnded(t *testing.T) {
	at := func(port uint16) (r discovery.Record) {
		r.Entry.PORTID = port
		return r
	}
	a := &autoconnect{connected: map[string]discovery.Record{"nvme0": at(1), "nvme1": at(2), "nvme2": at(3)}}
	lost := errors.New("it was away")
	a.ended(map[string]error{"nvme0": lost, "nvme1": nil, "nvme9": lost})
	a.ended(map[string]error{"nvme0": lost, "nvme1": lost})
	if len(a.again) != 1 || a.again[0].record.Entry.PORTID != 1 || len(a.connected) != 1 {
		t.Errorf("again: %+v, connected: %v", a.again, a.connected)
	}
}
