package reservation

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/nvmeof-go/nvmeof/capsule"
)

const (
	wrEx   = capsule.ReservationWriteExclusive
	exAc   = capsule.ReservationExclusiveAccess
	wrExRO = capsule.ReservationWriteExclusiveRegistrantsOnly
	exAcRO = capsule.ReservationExclusiveAccessRegistrantsOnly
	wrExAR = capsule.ReservationWriteExclusiveAllRegistrants
	exAcAR = capsule.ReservationExclusiveAccessAllRegistrants

	released  = capsule.NoticeReservationReleased
	preempted = capsule.NoticeReservationPreempted
	unregistd = capsule.NoticeRegistrationPreempted
)

var allTypes = []capsule.ReservationType{wrEx, exAc, wrExRO, exAcRO, wrExAR, exAcAR}

// host returns the identifier of a host that is named by a letter.
func host(name byte) capsule.HostID { return capsule.HostID{15: name} }

func register(h byte, action uint8, current, next capsule.ReservationKey) Command {
	return Command{Opcode: capsule.IOReservationRegister, Host: host(h), CanPersist: true,
		Fields: capsule.ReservationCommand{Action: action}, Keys: capsule.ReservationKeys{Current: current, Other: next}}
}

func acquire(h byte, action uint8, t capsule.ReservationType, current, preempt capsule.ReservationKey) Command {
	return Command{Opcode: capsule.IOReservationAcquire, Host: host(h),
		Fields: capsule.ReservationCommand{Action: action, Type: t}, Keys: capsule.ReservationKeys{Current: current, Other: preempt}}
}

func release(h byte, action uint8, t capsule.ReservationType, current capsule.ReservationKey) Command {
	return Command{Opcode: capsule.IOReservationRelease, Host: host(h),
		Fields: capsule.ReservationCommand{Action: action, Type: t}, Keys: capsule.ReservationKeys{Current: current}}
}

func with(c Command, change func(*Command)) Command {
	change(&c)
	return c
}

func ignoring(c Command) Command { return with(c, func(c *Command) { c.Fields.IgnoreKey = true }) }

// registered returns a state in which each host of the text is registered, with the keys 10 for a, 11 for b and so
// on, and the first one holds the reservation.
func registered(hosts string, t capsule.ReservationType) State {
	s := State{Generation: 5}
	for _, h := range []byte(hosts) {
		s.Registrants = append(s.Registrants, Registrant{host(h), capsule.ReservationKey(h-'a') + 10, ""})
	}
	if t != 0 {
		s.reserve(t, host(hosts[0]))
	}
	return s
}

// describe returns "type/holder: a=10 b=11".
func describe(s State) string {
	var b strings.Builder
	fmt.Fprintf(&b, "%d", s.Type)
	if s.Holder[15] != 0 {
		fmt.Fprintf(&b, "/%c", s.Holder[15])
	}
	b.WriteByte(':')
	for _, r := range s.Registrants {
		fmt.Fprintf(&b, " %c=%d", r.Host[15], r.Key)
	}
	return b.String()
}

func notices(what capsule.ReservationNotice, hosts string) (out []Notice) {
	for _, h := range []byte(hosts) {
		out = append(out, Notice{host(h), what})
	}
	return out
}

// TestCommands is row 85 for wrong keys, types and actions.
func TestCommands(t *testing.T) {
	const ok = capsule.StatusSuccess
	reg, unreg, repl := capsule.RegisterKey, capsule.UnregisterKey, capsule.ReplaceKey
	acq, pre, abort := capsule.AcquireReservation, capsule.PreemptReservation, capsule.PreemptAndAbort
	rel, clr := capsule.ReleaseReservation, capsule.ClearReservation
	for _, c := range []struct {
		name    string
		before  State
		cmd     Command
		status  capsule.Status
		after   string // unchanged if the status is an error
		notices []Notice
		abort   string
		counts  bool // the generation changes
	}{
		{"register", State{}, register('a', reg, 99, 10), ok, "0: a=10", nil, "", true},
		{"register again with the same key", registered("a", 0), register('a', reg, 99, 10), ok, "0: a=10", nil, "", true},
		{"register again with another key", registered("a", 0), register('a', reg, 10, 20), conflict, "", nil, "", false},
		{"register with key 0", State{}, register('a', reg, 0, 0), invalid, "", nil, "", false},
		{"register two hosts with one key", registered("a", 0), register('b', reg, 0, 10), ok, "0: a=10 b=10", nil, "", true},
		{"register under a reservation", registered("a", exAc), register('b', reg, 0, 11), ok, "2/a: a=10 b=11", nil, "", true},
		{"reserved action", registered("a", 0), register('a', 3, 10, 10), invalid, "", nil, "", false},

		{"replace", registered("ab", wrEx), register('a', repl, 10, 20), ok, "1/a: a=20 b=11", nil, "", true},
		{"replace with a wrong key", registered("a", 0), register('a', repl, 11, 20), conflict, "", nil, "", false},
		{"replace, not registered", registered("a", 0), register('b', repl, 10, 20), conflict, "", nil, "", false},
		{"replace, ignoring the key", registered("a", 0), ignoring(register('a', repl, 0, 20)), ok, "0: a=20", nil, "", true},
		{"replace, ignoring that it is not registered", registered("a", 0), ignoring(register('b', repl, 0, 20)), ok, "0: a=10 b=20", nil, "", true},
		{"replace with key 0", registered("a", 0), register('a', repl, 10, 0), invalid, "", nil, "", false},

		{"unregister", registered("ab", 0), register('a', unreg, 10, 0), ok, "0: b=11", nil, "", true},
		{"unregister with a wrong key", registered("ab", 0), register('a', unreg, 11, 0), conflict, "", nil, "", false},
		{"unregister, ignoring the key", registered("ab", 0), ignoring(register('a', unreg, 0, 0)), ok, "0: b=11", nil, "", true},
		{"unregister, not registered", registered("a", 0), ignoring(register('b', unreg, 0, 0)), conflict, "", nil, "", false},
		{"unregister the holder", registered("abc", wrEx), register('a', unreg, 10, 0), ok, "0: b=11 c=12", nil, "", true},
		{"unregister the holder, registrants only", registered("abc", wrExRO), register('a', unreg, 10, 0), ok, "0: b=11 c=12", notices(released, "bc"), "", true},
		{"unregister one of the holders", registered("abc", exAcAR), register('a', unreg, 10, 0), ok, "6: b=11 c=12", nil, "", true},
		{"unregister the last holder", registered("a", exAcAR), register('a', unreg, 10, 0), ok, "0:", nil, "", true},
		{"unregister another than the holder", registered("ab", exAc), register('b', unreg, 11, 0), ok, "2/a: a=10", nil, "", true},

		{"acquire", registered("ab", 0), acquire('b', acq, exAc, 11, 0), ok, "2/b: a=10 b=11", nil, "", false},
		{"acquire for all registrants", registered("ab", 0), acquire('b', acq, wrExAR, 11, 0), ok, "5: a=10 b=11", nil, "", false},
		{"acquire what one has", registered("ab", exAc), acquire('a', acq, exAc, 10, 0), ok, "2/a: a=10 b=11", nil, "", false},
		{"acquire what all have", registered("ab", wrExAR), acquire('b', acq, wrExAR, 11, 0), ok, "5: a=10 b=11", nil, "", false},
		{"acquire with another type", registered("ab", exAc), acquire('a', acq, wrEx, 10, 0), conflict, "", nil, "", false},
		{"acquire what another has", registered("ab", exAc), acquire('b', acq, exAc, 11, 0), conflict, "", nil, "", false},
		{"acquire, not registered", registered("a", 0), acquire('b', acq, exAc, 10, 0), conflict, "", nil, "", false},
		{"acquire with a wrong key", registered("a", 0), acquire('a', acq, exAc, 11, 0), conflict, "", nil, "", false},
		{"acquire type 0", registered("a", 0), acquire('a', acq, 0, 10, 0), invalid, "", nil, "", false},
		{"acquire type 7", registered("a", 0), acquire('a', acq, 7, 10, 0), invalid, "", nil, "", false},
		{"acquire, ignoring the key", registered("a", 0), ignoring(acquire('a', acq, exAc, 10, 0)), invalid, "", nil, "", false},
		{"reserved acquire action", registered("a", 0), acquire('a', 3, exAc, 10, 0), invalid, "", nil, "", false},

		{"preempt the holder", registered("abc", exAc), acquire('b', pre, exAc, 11, 10), ok, "2/b: b=11 c=12", notices(unregistd, "a"), "", true},
		{"preempt the holder with another type", registered("abc", exAc), acquire('b', pre, wrEx, 11, 10), ok, "1/b: b=11 c=12",
			append(notices(unregistd, "a"), notices(released, "c")...), "", true},
		{"preempt and abort", registered("abc", exAc), acquire('b', abort, exAc, 11, 10), ok, "2/b: b=11 c=12", notices(unregistd, "a"), "a", true},
		{"preempt another registrant", registered("abc", exAc), acquire('b', pre, wrEx, 11, 12), ok, "2/a: a=10 b=11", notices(unregistd, "c"), "", true},
		{"preempt without a reservation", registered("abc", 0), acquire('b', abort, wrEx, 11, 12), ok, "0: a=10 b=11", notices(unregistd, "c"), "c", true},
		{"preempt oneself as the holder", registered("abc", exAc), acquire('a', pre, wrEx, 10, 10), ok, "1/a: a=10 b=11 c=12", notices(released, "bc"), "", true},
		{"preempt oneself, not the holder", registered("abc", exAc), acquire('b', pre, wrEx, 11, 11), conflict, "", nil, "", false},
		{"preempt a key that nobody has", registered("abc", exAc), acquire('b', pre, wrEx, 11, 99), conflict, "", nil, "", false},
		{"preempt key 0", registered("abc", exAc), acquire('b', pre, wrEx, 11, 0), invalid, "", nil, "", false},
		{"preempt key 0 without a reservation", registered("abc", 0), acquire('b', pre, wrEx, 11, 0), invalid, "", nil, "", false},
		{"preempt, not registered", registered("abc", exAc), acquire('d', pre, wrEx, 0, 10), conflict, "", nil, "", false},
		{"preempt all registrants", registered("abc", exAcAR), acquire('b', abort, exAc, 11, 0), ok, "2/b: b=11", notices(unregistd, "ac"), "ac", true},
		{"preempt one of all registrants", registered("abc", exAcAR), acquire('b', pre, exAc, 11, 12), ok, "6: a=10 b=11", notices(unregistd, "c"), "", true},
		{"preempt a key of none of all registrants", registered("abc", exAcAR), acquire('b', pre, exAc, 11, 99), conflict, "", nil, "", false},

		{"release", registered("ab", exAc), release('a', rel, exAc, 10), ok, "0: a=10 b=11", nil, "", false},
		{"release, registrants only", registered("abc", wrExRO), release('a', rel, wrExRO, 10), ok, "0: a=10 b=11 c=12", notices(released, "bc"), "", false},
		{"release, all registrants", registered("abc", wrExAR), release('c', rel, wrExAR, 12), ok, "0: a=10 b=11 c=12", notices(released, "ab"), "", false},
		{"release with another type", registered("ab", exAc), release('a', rel, wrEx, 10), invalid, "", nil, "", false},
		{"release what another has", registered("ab", exAc), release('b', rel, exAc, 11), ok, "2/a: a=10 b=11", nil, "", false},
		{"release with a wrong key", registered("ab", exAc), release('a', rel, exAc, 11), conflict, "", nil, "", false},
		{"release, not registered", registered("ab", exAc), release('c', rel, exAc, 10), conflict, "", nil, "", false},
		{"release nothing", registered("ab", 0), release('a', rel, exAc, 10), ok, "0: a=10 b=11", nil, "", false},
		{"release, ignoring the key", registered("a", 0), ignoring(release('a', rel, exAc, 10)), invalid, "", nil, "", false},
		{"reserved release action", registered("a", 0), release('a', 2, exAc, 10), invalid, "", nil, "", false},
		{"clear", registered("abc", exAc), release('b', clr, 0, 11), ok, "0:", notices(preempted, "ac"), "", true},
		{"clear with a wrong key", registered("abc", exAc), release('b', clr, 0, 10), conflict, "", nil, "", false},
		{"another opcode", registered("a", 0), Command{Opcode: capsule.IORead, Host: host('a')}, capsule.StatusInvalidOpcode | capsule.StatusDNR, "", nil, "", false},
	} {
		t.Run(c.name, func(t *testing.T) {
			before := describe(c.before)
			after, out := c.before.Apply(c.cmd)
			if out.Status != c.status {
				t.Fatalf("%v, want %v", out.Status, c.status)
			}
			if c.after == "" {
				c.after = before
			}
			if describe(after) != c.after {
				t.Errorf("state %q, want %q", describe(after), c.after)
			}
			if describe(c.before) != before {
				t.Error("the state before was written to")
			}
			if !slices.Equal(out.Notices, c.notices) {
				t.Errorf("notices %v, want %v", out.Notices, c.notices)
			}
			var abort []byte
			for _, h := range out.Abort {
				abort = append(abort, h[15])
			}
			if string(abort) != c.abort {
				t.Errorf("aborts %q, want %q", abort, c.abort)
			}
			if counted := after.Generation != c.before.Generation; counted != c.counts {
				t.Errorf("generation %d after %d", after.Generation, c.before.Generation)
			}
		})
	}
}

// TestAllows tests the table of command behaviour: holder, registrant and other host, reading and writing.
func TestAllows(t *testing.T) {
	for typ, want := range map[capsule.ReservationType]string{ // holder r w, registrant r w, other r w
		0: "rwrwrw", wrEx: "rwr-r-", exAc: "rw----", wrExRO: "rwrwr-", exAcRO: "rwrw--", wrExAR: "rwrwr-", exAcAR: "rwrw--",
	} {
		state := registered("ab", typ)
		s := NewGuard(&state)
		if (s == nil) != (typ == 0) {
			t.Fatalf("type %d: guard %v", typ, s)
		}
		if s == nil {
			s = &Guard{State: &state}
		}
		got := ""
		for _, h := range "abc" {
			for _, a := range []Access{Read, Write} {
				switch {
				case !s.Allows(host(byte(h)), a):
					got += "-"
				case a == Read:
					got += "r"
				default:
					got += "w"
				}
				if !s.Allows(host(byte(h)), None) {
					t.Errorf("type %d keeps host %c from what touches no block", typ, h)
				}
			}
			if both := s.Allows(host(byte(h)), Read|Write); both != strings.HasSuffix(got, "w") {
				t.Errorf("type %d, host %c: reads and writes: %v", typ, h, both)
			}
		}
		if got != want {
			t.Errorf("type %d: %s, want %s", typ, got, want)
		}
	}
}

func TestPersist(t *testing.T) {
	persist := func(c Command, v uint8) Command { return with(c, func(c *Command) { c.Fields.Persist = v }) }
	s, out := State{}.Apply(persist(register('a', 0, 0, 10), capsule.PersistSet))
	if !out.Status.OK() || !s.Persist {
		t.Fatalf("set: %v, %v", out.Status, s.Persist)
	}
	if s, _ = s.Apply(register('b', 0, 0, 11)); !s.Persist {
		t.Error("no change changed it")
	}
	if bad, out := s.Apply(persist(register('b', 0, 0, 99), capsule.PersistClear)); out.Status != conflict || !bad.Persist {
		t.Error("a command that failed changed it")
	}
	if s, out = s.Apply(persist(register('b', 0, 0, 11), capsule.PersistClear)); !out.Status.OK() || s.Persist {
		t.Error("not cleared")
	}
	if _, out := s.Apply(persist(register('b', 0, 0, 11), 1)); out.Status != invalid {
		t.Errorf("reserved value: %v", out.Status)
	}
	cannot := with(persist(register('b', 0, 0, 11), capsule.PersistSet), func(c *Command) { c.CanPersist = false })
	if _, out := s.Apply(cannot); out.Status != invalid {
		t.Errorf("without a store: %v", out.Status)
	}
}

// TestTooManyRegistrants is row 85: hosts cannot cause unlimited memory use.
func TestTooManyRegistrants(t *testing.T) {
	var s State
	for i := range MaxRegistrants + 1 {
		c := register(1, 0, 0, 1)
		c.Host[0], c.Host[1] = byte(i), byte(i>>8)
		var out Outcome
		if s, out = s.Apply(c); out.Status.OK() != (i < MaxRegistrants) {
			t.Fatalf("host %d: %v", i, out.Status)
		}
	}
	if len(s.Registrants) != MaxRegistrants {
		t.Errorf("%d registrants", len(s.Registrants))
	}
}

// TestOneNameTakesAllPlaces: a host that registers with one identifier after the other leaves room for others; its
// oldest registrations end, except the holder's.
func TestOneNameTakesAllPlaces(t *testing.T) {
	s, out := State{}, Outcome{}
	as := func(i int) Command {
		c := register(1, 0, 0, 1)
		c.Host[0], c.Host[1], c.NQN = byte(i), byte(i>>8), "nqn.2014-08.org.nvmexpress:host:a"
		return c
	}
	for i := range 2 * MaxRegistrants {
		if s, out = s.Apply(as(i)); !out.Status.OK() {
			t.Fatalf("identifier %d: %v", i, out.Status)
		}
		if i == 1 {
			s.reserve(wrEx, as(0).Host)
		}
		want := []Notice(nil)
		if i >= MaxOfName { // the first is the holder
			want = []Notice{{as(i - MaxOfName + 1).Host, unregistd}}
		}
		if !slices.Equal(out.Notices, want) {
			t.Fatalf("identifier %d: notices %v, want %v", i, out.Notices, want)
		}
	}
	if len(s.Registrants) != MaxOfName || !s.Holds(as(0).Host) || !s.registered(as(0).Host) {
		t.Errorf("%d registrants, holder %x", len(s.Registrants), s.Holder)
	}
	for i := range MaxRegistrants - MaxOfName {
		c := register(byte(i), 0, 0, 1)
		c.Host[14] = 1 + byte(i>>8)
		if s, out = s.Apply(c); !out.Status.OK() {
			t.Fatalf("host %d: %v", i, out.Status)
		}
	}
}

func TestReport(t *testing.T) {
	s := registered("ab", exAc)
	s.Persist = true
	b := s.Report(nil)
	head, err := capsule.DecodeReservationStatus(b)
	if err != nil || head != (capsule.ReservationStatus{Generation: 5, Type: exAc, Registrants: 2, Persist: 1}) || len(b) != 3*64 {
		t.Errorf("head %+v of %d bytes, %v", head, len(b), err)
	}
	for i, want := range []capsule.ReservationRegistrant{
		{CNTLID: 0xffff, Holds: 1, Key: 10, Host: host('a')}, {CNTLID: 0xffff, Key: 11, Host: host('b')},
	} {
		if got, err := capsule.DecodeReservationRegistrant(b[64*(i+1):]); err != nil || got != want {
			t.Errorf("entry %d: %+v, %v", i, got, err)
		}
	}
}

func TestRecord(t *testing.T) {
	for _, typ := range append(allTypes, 0) {
		s := registered("abc", typ)
		s.Persist = true
		b, err := s.Encode(Owner{})
		if err != nil {
			t.Fatal(err)
		}
		got, _, err := Decode(b)
		if err != nil || describe(got) != describe(s) || got.Generation != s.Generation || !got.Persist {
			t.Errorf("%s comes back as %s, %v", describe(s), describe(got), err)
		}
		for i := range b { // every changed byte is an error, as is every truncation
			bad := slices.Clone(b)
			bad[i] ^= 4
			if d, _, err := Decode(bad); err == nil && describe(d) != describe(s) {
				t.Fatalf("byte %d changed: %s taken for %s", i, describe(d), describe(s))
			}
			if _, _, err := Decode(b[:i]); err == nil {
				t.Fatalf("%d bytes of %d are taken for a record", i, len(b))
			}
		}
	}
	s := registered("abc", exAc)
	b, err := s.Encode(Owner{})
	if err != nil {
		t.Fatal(err)
	}
	if got, _, err := Decode(b); err != nil || describe(got) != "0:" {
		t.Errorf("a state that is not to persist comes back as %s, %v", describe(got), err)
	}
}

// TestOwner: a record names its owner; one of the version without owners matches any.
func TestOwner(t *testing.T) {
	s := registered("ab", exAc)
	s.Persist = true
	one := Owner{Subsystem: "a", NSID: 1, UUID: "u1", NGUID: "n1", Export: "/a"}
	b, err := s.Encode(one)
	if err != nil {
		t.Fatal(err)
	}
	if got, of, err := Decode(b); err != nil || of != one || describe(got) != describe(s) {
		t.Errorf("%s of %v, %v", describe(got), of, err)
	}
	if _, of, err := Decode([]byte(`{"version":1,"crc32c":"147e9acc","state":null}`)); err != nil || of != (Owner{}) {
		t.Errorf("of version 1: %v, %v", of, err)
	}
	for _, c := range []struct {
		other Owner
		same  bool
	}{
		{one, true}, {Owner{}, true},
		{Owner{Subsystem: "a", NSID: 2, UUID: "u2", NGUID: "n2"}, false}, {Owner{Subsystem: "b", NSID: 1, UUID: "u2", NGUID: "n2"}, false}, {Owner{Subsystem: "b", NSID: 1}, false},
		{Owner{Subsystem: "b", NSID: 2, UUID: "u1"}, true}, {Owner{Subsystem: "b", NSID: 2, NGUID: "n1"}, true}, {Owner{Subsystem: "a", NSID: 1, Export: "/z"}, false},
		{Owner{Subsystem: "a", NSID: 1, UUID: "u2", Export: "/a"}, true}, {Owner{Subsystem: "a", NSID: 2, UUID: "u2", Export: "/a"}, true},
		{Owner{Subsystem: "a", NSID: 1, UUID: "u2", Export: "/z"}, false}, {Owner{Subsystem: "a", NSID: 1, UUID: "u2"}, false},
	} {
		if one.Same(c.other) != c.same || c.other.Same(one) != c.same {
			t.Errorf("%v is taken for %v: %v", c.other, one, !c.same)
		}
	}
}

// FuzzApply: whatever commands hosts send, the state is consistent, and survives encoding.
func FuzzApply(f *testing.F) {
	f.Add([]byte{0, 'a', 0, 10, 0xc0, 1, 'a', 0, 10, 2})
	f.Add([]byte{0, 'a', 0, 10, 0, 0, 'b', 0, 11, 0, 1, 'a', 0, 10, 6, 1, 'b', 1, 11, 1, 2, 'b', 1, 11, 0})
	f.Fuzz(func(t *testing.T, b []byte) {
		var s State
		for ; len(b) >= 5; b = b[5:] {
			c := Command{Opcode: []capsule.IOOpcode{capsule.IOReservationRegister, capsule.IOReservationAcquire, capsule.IOReservationRelease}[b[0]%3],
				Host: host(b[1] % 4), CanPersist: true,
				Fields: capsule.ReservationCommand{Action: b[2] & 7, IgnoreKey: b[2]&8 != 0, Type: capsule.ReservationType(b[4] & 7), Persist: b[4] >> 6},
				Keys:   capsule.ReservationKeys{Current: capsule.ReservationKey(b[3] & 15), Other: capsule.ReservationKey(b[3] >> 4)}}
			before := describe(s)
			next, out := s.Apply(c)
			if !next.Check() || !out.Status.OK() && (describe(next) != before || len(out.Notices)+len(out.Abort) > 0) {
				t.Fatalf("%s leads to %s, %+v", before, describe(next), out)
			}
			for _, n := range out.Notices {
				if n.Host == c.Host {
					t.Fatalf("%+v notifies its own host %v", c, n.What)
				}
			}
			s = next
			s.Persist = true
			text, err := s.Encode(Owner{})
			if err != nil {
				t.Fatal(err)
			}
			if back, _, err := Decode(text); err != nil || describe(back) != describe(s) {
				t.Fatalf("%s is stored as %s, %v", describe(s), describe(back), err)
			}
		}
	})
}

// FuzzDecode: no file decodes to an inconsistent state.
func FuzzDecode(f *testing.F) {
	s := registered("ab", exAc)
	s.Persist = true
	if b, err := s.Encode(Owner{Subsystem: "a", NSID: 1, UUID: "u"}); err == nil {
		f.Add(b)
	}
	f.Add([]byte(`{"version":1,"crc32c":"147e9acc","state":null}`))
	f.Fuzz(func(t *testing.T, b []byte) {
		if s, _, err := Decode(b); err == nil && !s.Check() {
			t.Fatalf("%q gives %s", b, describe(s))
		}
	})
}

// TestAdministrator: an administrator replaces registrants that no longer exist, and the remaining ones are
// notified as if a registrant had acted.
func TestAdministrator(t *testing.T) {
	for _, c := range []struct {
		name    string
		before  State
		host    byte // 0: all
		status  capsule.Status
		after   string
		notices []Notice
	}{
		{"clear", registered("abc", exAc), 0, capsule.StatusSuccess, "0:", notices(preempted, "abc")},
		{"clear nothing", State{}, 0, capsule.StatusSuccess, "0:", nil},
		{"evict the holder", registered("abc", exAc), 'a', capsule.StatusSuccess, "0: b=11 c=12", notices(unregistd, "a")},
		{"evict the holder, registrants only", registered("abc", wrExRO), 'a', capsule.StatusSuccess, "0: b=11 c=12",
			append(notices(released, "bc"), notices(unregistd, "a")...)},
		{"evict one of the holders", registered("abc", exAcAR), 'a', capsule.StatusSuccess, "6: b=11 c=12", notices(unregistd, "a")},
		{"evict the last holder", registered("a", exAcAR), 'a', capsule.StatusSuccess, "0:", notices(unregistd, "a")},
		{"evict another than the holder", registered("ab", exAc), 'b', capsule.StatusSuccess, "2/a: a=10", notices(unregistd, "b")},
		{"evict, not registered", registered("ab", exAc), 'c', conflict, "2/a: a=10 b=11", nil},
	} {
		t.Run(c.name, func(t *testing.T) {
			before := describe(c.before)
			after, out := c.before.Clear()
			if c.host != 0 {
				after, out = c.before.Evict(host(c.host))
			}
			if out.Status != c.status || describe(after) != c.after || !after.Check() || describe(c.before) != before {
				t.Errorf("%v, state %q after %q, want %v, %q", out.Status, describe(after), describe(c.before), c.status, c.after)
			}
			if !slices.Equal(out.Notices, c.notices) || out.Abort != nil {
				t.Errorf("notices %v, want %v", out.Notices, c.notices)
			}
			if (after.Generation != c.before.Generation) != c.status.OK() {
				t.Errorf("generation %d after %d", after.Generation, c.before.Generation)
			}
		})
	}
}
