package discovery

import (
	"errors"
	"fmt"
	"net/netip"
	"strings"
	"testing"
	"time"

	"github.com/nvmeof-go/nvmeof/capsule"
	"github.com/nvmeof-go/nvmeof/nvmeof"
)

// at returns a discovery controller at 192.0.2.N.
func at(n int) Endpoint {
	return Endpoint{Addr: netip.AddrPortFrom(netip.AddrFrom4([4]byte{192, 0, 2, byte(n)}), 4420), NQN: nvmeof.DiscoveryNQN}
}

// entry makes a log entry of words: "disk@7" is a subsystem at 192.0.2.7, ">7" a
// referral to there, ">7=name" one by a unique name, "self" the controller itself;
// "!" before it marks duplicate information, "tcp:" another transport, "ib:" and "ipv6:" another family of addresses.
func entry(word string) (e capsule.DiscoveryEntry) {
	e.TRTYPE, e.ADRFAM, e.SUBTYPE = capsule.TransportRDMA, capsule.FamilyIPv4, capsule.SubsystemNVM
	if rest, ok := strings.CutPrefix(word, "!"); ok {
		word, e.EFLAGS = rest, capsule.DiscoveryDuplicate
	}
	if rest, ok := strings.CutPrefix(word, "tcp:"); ok {
		word, e.TRTYPE = rest, capsule.TransportTCP
	}
	if rest, ok := strings.CutPrefix(word, "ib:"); ok {
		word, e.ADRFAM = rest, capsule.FamilyIB
	}
	if rest, ok := strings.CutPrefix(word, "ipv6:"); ok {
		word, e.ADRFAM = rest, capsule.FamilyIPv6
	}
	nqn, addr, _ := strings.Cut(word, "@")
	if to, ok := strings.CutPrefix(word, ">"); ok {
		e.SUBTYPE = capsule.SubsystemReferral
		addr, nqn, _ = strings.Cut(to, "=")
		if nqn == "" {
			nqn = capsule.DiscoveryNQN
		}
	}
	if word == "self" {
		e.SUBTYPE, addr = capsule.SubsystemCurrentDiscovery, "1"
	}
	if addr != "" {
		addr = "192.0.2." + addr
	}
	e.SubNQN = capsule.MakeNQNField(nqn)
	capsule.PutText(e.TRADDR[:], addr)
	capsule.PutText(e.TRSVCID[:], "4420")
	return e
}

func entries(words string) (all []capsule.DiscoveryEntry) {
	for w := range strings.FieldsSeq(words) {
		all = append(all, entry(w))
	}
	return all
}

// brief describes an event or order in a few words.
func brief(x any) string {
	last := func(a string) string { return a[strings.LastIndex(a, ".")+1:] }
	end := func(e Endpoint) string { return last(e.Addr.Addr().String()) }
	switch x := x.(type) {
	case order:
		if x.kind == orderConnect {
			s := fmt.Sprintf("connect %d", x.id)
			if x.at.NQN != nvmeof.DiscoveryNQN {
				s += "=" + string(x.at.NQN)
			}
			return s + "@" + end(x.at)
		}
		return fmt.Sprintf("%s %d", [...]string{orderRead: "read", orderDrop: "drop"}[x.kind], x.id)
	case Event:
		switch x.Kind {
		case Added, Removed:
			return fmt.Sprintf("%v %s@%s", x.Kind, x.Record.NQN(), last(x.Record.Traddr()))
		case Unreachable:
			return fmt.Sprintf("unreachable %s (%v) %v", end(x.At), x.Err, x.Again)
		case Skipped:
			return fmt.Sprintf("skipped %s>%s (%v)", end(x.At), last(x.Record.Traddr()), x.Err)
		}
		return "log " + end(x.At)
	}
	return "?"
}

// A script drives an engine and compares the results.
type script struct {
	*testing.T
	engine *engine
	now    time.Time
}

func newScript(t *testing.T, c Config) *script {
	return &script{t, newEngine(c), time.Date(2026, 11, 21, 0, 0, 0, 0, time.UTC)}
}

// want compares the orders and events since the last call, except Logged.
func (s *script) want(what string, words ...string) {
	s.Helper()
	orders, events := s.engine.take()
	var got []string
	for _, o := range orders {
		got = append(got, brief(o))
	}
	for _, e := range events {
		if e.Kind != Logged {
			got = append(got, brief(e))
		}
	}
	if strings.Join(got, ", ") != strings.Join(words, ", ") {
		s.Errorf("%s: %s\nwant %s", what, strings.Join(got, ", "), strings.Join(words, ", "))
	}
}

func (s *script) start(n int) { s.engine.start(s.now, at(n)) }
func (s *script) log(id nodeID, w string) {
	s.engine.logged(s.now, id, reading{log: Log{Entries: entries(w)}, notices: true})
}
func (s *script) fail(id nodeID)          { s.engine.failed(s.now, id, errors.New("no")) }
func (s *script) advance(d time.Duration) { s.now = s.now.Add(d); s.engine.advance(s.now) }
func (s *script) idle(what string)        { s.Helper(); s.want(what) }
func (s *script) wantNext(d time.Duration) {
	s.Helper()
	next := s.engine.next()
	if d == 0 && !next.IsZero() || d != 0 && next.Sub(s.now) != d {
		s.Errorf("next is in %v, want %v", next.Sub(s.now), d)
	}
}

func TestOnce(t *testing.T) {
	s := newScript(t, Config{})
	s.start(1)
	s.start(1)
	s.want("start", "connect 1@1")
	s.log(1, "self disk@1 disk@1 disk@2 >2 tcp:>3 >4")
	s.want("first log", "connect 2@2", "connect 3@4", "added disk@1", "added disk@2", "skipped 1>3 (transport tcp, and this host has rdma)")
	s.log(2, "disk@2 other@2 >1")
	s.want("record known, loop", "added other@2")
	s.fail(3)
	s.want("failure", "unreachable 4 (no) 1s")
	s.wantNext(time.Second)
	if s.engine.done() {
		t.Error("done before the second attempt")
	}
	s.advance(time.Second)
	s.want("second attempt", "connect 3@4")
	s.fail(3)
	s.want("given up", "unreachable 4 (no) 0s")
	if !s.engine.done() {
		t.Error("not done")
	}
}

func TestPersistent(t *testing.T) {
	s := newScript(t, Config{Persistent: true})
	s.start(1)
	s.want("start", "connect 1@1")
	s.log(1, "a@1 b@1")
	s.want("log", "added a@1", "added b@1")
	s.wantNext(0)
	s.engine.changed(1)
	s.want("notice", "read 1")
	s.engine.changed(1)
	s.engine.changed(1)
	s.idle("notices while reading")
	s.log(1, "b@1 c@1")
	s.want("changed meanwhile", "read 1", "added c@1", "removed a@1")
	s.log(1, "b@1 c@1")
	s.idle("the same log")
	s.fail(1)
	s.want("lost; its records stay", "unreachable 1 (no) 1s")
	for _, pause := range []time.Duration{2, 4, 8} {
		s.advance(pause / 2 * time.Second)
		s.want("again", "connect 1@1")
		s.fail(1)
		s.want("still not there", fmt.Sprintf("unreachable 1 (no) %ds", pause))
	}
	s.engine.changed(1)
	s.idle("a late notice")
	s.advance(time.Hour)
	s.want("again", "connect 1@1")
	s.log(1, "c@1")
	s.want("back", "removed b@1")
	s.fail(1)
	s.want("lost again, with the first pause", "unreachable 1 (no) 1s")
	s.engine.stop(s.now, at(1))
	s.want("stop", "removed c@1")
	s.log(1, "d@1")
	s.fail(1)
	s.idle("results of a node that is gone")
}

// TestAnotherFamily: a record with an unusable address family is another record once the family is corrected. IPv4 and
// IPv6 are the same, since the address itself says which it is.
func TestAnotherFamily(t *testing.T) {
	s := newScript(t, Config{Persistent: true})
	s.start(1)
	s.log(1, "ib:a@7")
	s.want("one of InfiniBand", "connect 1@1", "added a@7")
	s.engine.changed(1)
	s.log(1, "a@7")
	s.want("mended", "read 1", "added a@7", "removed a@7")
	s.engine.changed(1)
	s.log(1, "ipv6:a@7")
	s.want("nothing new", "read 1")
}

func TestPauseIsBounded(t *testing.T) {
	s := newScript(t, Config{Persistent: true, MaxPause: 5 * time.Second})
	s.start(1)
	for range 10 {
		s.fail(1)
		s.advance(time.Minute)
	}
	s.engine.take()
	s.fail(1)
	s.want("tenth failure", "unreachable 1 (no) 5s")
}

// TestPoll: the log of a controller that reports no changes is read periodically.
func TestPoll(t *testing.T) {
	s := newScript(t, Config{Persistent: true})
	s.start(1)
	s.engine.logged(s.now, 1, reading{log: Log{Entries: entries("a@1")}})
	s.want("log", "connect 1@1", "added a@1")
	s.wantNext(time.Minute)
	s.advance(time.Minute)
	s.want("after a minute", "read 1")
	s.wantNext(0)
}

// TestReferralsGo: controllers that only a removed referral led to are dropped, also if they refer to each other.
func TestReferralsGo(t *testing.T) {
	s := newScript(t, Config{Persistent: true})
	s.start(1)
	s.log(1, ">2 a@1")
	s.log(2, ">3 a@1 b@2")
	s.log(3, ">2 >1 c@3")
	s.want("a circle", "connect 1@1", "connect 2@2", "connect 3@3", "added a@1", "added b@2", "added c@3")
	s.engine.changed(1)
	s.log(1, "a@1")
	s.want("no referral", "read 1", "drop 2", "drop 3", "removed b@2", "removed c@3")
	s.engine.changed(1)
	s.log(1, "a@1 >3")
	s.want("another one", "read 1", "connect 4@3")
	s.start(3)
	s.idle("a node becomes a seed")
	s.engine.changed(1)
	s.log(1, "a@1")
	s.want("and stays", "read 1")
	s.log(4, ">1")
	s.engine.stop(s.now, at(1))
	s.idle("a seed that somebody refers to stays too")
}

func TestLimits(t *testing.T) {
	s := newScript(t, Config{Persistent: true, Depth: 2, Controllers: 4})
	s.start(1)
	s.log(1, ">2 !>9")
	s.log(2, ">3")
	s.log(3, ">4 >1")
	s.want("depth", "connect 1@1", "connect 2@2", "connect 3@3",
		"skipped 1>9 (it returns the same information as the controller that refers to it)",
		"skipped 3>4 (too many referrals in a row: more than 2)")
	s.engine.changed(1)
	s.log(1, ">2 >3 >5 >6 !>9")
	s.want("number", "read 1", "connect 4@5", "skipped 1>6 (too many discovery controllers: more than 4)")
	s.engine.changed(1)
	s.log(1, ">2 >3 >5 >6 !>9")
	s.want("told once", "read 1")
	none := newScript(t, Config{Depth: -1})
	none.start(1)
	none.log(1, ">2")
	none.want("no referrals at all", "connect 1@1", "skipped 1>2 (too many referrals in a row: more than 0)")
}

// TestFartherAway: a controller whose shortest path of referrals becomes longer is followed only up to the maximum
// depth.
func TestFartherAway(t *testing.T) {
	s := newScript(t, Config{Persistent: true, Depth: 2})
	s.start(1)
	s.log(1, ">2 >4")
	s.log(2, ">3")
	s.want("three", "connect 1@1", "connect 2@2", "connect 3@4", "connect 4@3")
	s.log(4, ">4")
	s.idle("4 is near enough by its short way")
	s.engine.changed(1)
	s.log(1, ">2")
	s.want("the short way is gone", "read 1", "drop 3", "skipped 3>4 (too many referrals in a row: more than 2)")
}

// TestUniqueNames: a controller is the same under both of its NQNs.
func TestUniqueNames(t *testing.T) {
	s := newScript(t, Config{Persistent: true})
	s.start(1)
	s.engine.logged(s.now, 1, reading{log: Log{Entries: entries(">2=second >1=first")}, name: "first", notices: true})
	s.want("log", "connect 1@1", "connect 2=second@2")
	s.engine.logged(s.now, 2, reading{log: Log{Entries: entries(">1 >1=first >2=second >2=third")}, name: "second", notices: true})
	s.want("back and forth", "connect 3=third@2")
}

// TestNamedOtherwise: a controller that has another NQN at each connection, and reports a change meanwhile, is dropped
// if referrals lead to its earlier NQN.
func TestNamedOtherwise(t *testing.T) {
	s := newScript(t, Config{Persistent: true, MinPause: time.Second})
	named := func(id nodeID, name nvmeof.NQN) { s.engine.logged(s.now, id, reading{Log{}, name, true}) }
	s.start(1)
	s.want("the seed", "connect 1@1")
	s.log(1, ">2")
	s.want("its referral", "connect 2@2")
	named(2, "u")
	s.engine.changed(1)
	s.want("a change", "read 1")
	s.log(1, ">2=u")
	s.idle("a referral to the same by its name")
	s.fail(2)
	s.want("the end", "unreachable 2 (no) 1s")
	s.advance(time.Second)
	s.want("the next attempt", "connect 2@2")
	s.engine.changed(2)
	named(2, "v")
	s.want("another name", "drop 2", "connect 3=u@2")
	s.engine.changed(2)
	s.idle("a report of one that is dropped")
}

func TestOddReferrals(t *testing.T) {
	e := entries(">2 >2 >2 >2 >2")
	e[0].ADRFAM = capsule.FamilyIB
	capsule.PutText(e[1].TRADDR[:], "0.0.0.0")
	capsule.PutText(e[2].TRADDR[:], "\x1b[2Jhere")
	capsule.PutText(e[3].TRSVCID[:], "none")
	e[4].SubNQN = capsule.NQNField{}
	s := newScript(t, Config{})
	s.start(1)
	s.engine.logged(s.now, 1, reading{log: Log{Entries: e}})
	s.want("log", "connect 1@1", "connect 2@2",
		"skipped 1>2 (infiniband, and this host has ipv4 and ipv6)",
		"skipped 1>0 (address 0.0.0.0 is not one to connect to)",
		"skipped 1>\x1b[2Jhere (transport address \"\\x1b[2Jhere\" is no IP address)",
		"skipped 1>2 (transport service identifier none is no port (1 to 65535))")
	ev := Event{Kind: Skipped, At: at(1), Record: Record{Entry: e[2]}, Err: errDeep}
	if text := ev.String(); strings.ContainsRune(text, 0x1b) {
		t.Errorf("an escape sequence of the controller in %q", text)
	}
}

// TestZoneOfReferral: the zone of an address is text of the controller too, and does not reach a terminal as part of
// the endpoint.
func TestZoneOfReferral(t *testing.T) {
	e := entries(">2")
	e[0].ADRFAM = capsule.FamilyIPv6
	capsule.PutText(e[0].TRADDR[:], "fe80::2%\x1b[2J\n")
	s := newScript(t, Config{})
	s.start(1)
	s.engine.logged(s.now, 1, reading{log: Log{Entries: e}})
	orders, events := s.engine.take()
	for _, o := range orders {
		s.engine.failed(s.now, o.id, errors.New("nobody is there"))
	}
	_, more := s.engine.take()
	for _, ev := range append(events, more...) {
		if text := ev.String(); strings.ContainsAny(text, "\x1b\n") {
			t.Errorf("an escape sequence of the controller in %q", text)
		}
	}
}
