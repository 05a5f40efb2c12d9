package target

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"maps"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/nvmeof-go/nvmeof/capsule"
	"github.com/nvmeof-go/nvmeof/nvmeof/events"
	"github.com/nvmeof-go/nvmeof/nvmeof/target/internal/life"
)

// TestPersistentEventLog reads the log in parts of one context, and finds the host's events.
func TestPersistentEventLog(t *testing.T) {
	f := newFixture(t)
	f.target.log.Events.Begin("test")
	h, _ := f.connectAdmin(0)
	ask := func(want capsule.Status, a capsule.PersistentAction, n int, at uint64) []byte {
		t.Helper()
		b := make([]byte, n)
		h.wantStatus(want, adminCommand(capsule.AdminGetLogPage, capsule.GetLogPage{LID: capsule.LogPersistentEvent, LSP: uint8(a), Length: uint64(n), LPO: at}, b))
		return b
	}
	const wrongOrder = capsule.StatusCommandSequence | dnr
	ask(wrongOrder, capsule.PersistentRead, 512, 0)
	head := ask(capsule.StatusSuccess, capsule.PersistentHeader, 512, 0)
	ask(wrongOrder, capsule.PersistentEstablish, 512, 0)
	ask(wrongOrder, capsule.PersistentHeader, 512, 0)
	f.target.log.Events.Record(events.Event{Kind: events.Store, Text: "later than the context"})
	length := int(binary.LittleEndian.Uint64(head[8:]))
	page := slices.Concat(ask(capsule.StatusSuccess, capsule.PersistentRead, 1024, 0), ask(capsule.StatusSuccess, capsule.PersistentRead, length-1024, 1024))
	if !slices.Equal(page[:512], head) || length > maxPersistentLog {
		t.Errorf("%d bytes, with another header", length)
	}
	var types []capsule.PersistentType
	at := 512
	for _, e := range eventsIn(page) {
		types = append(types, capsule.PersistentType(e[0]))
		at += len(e)
	}
	if !slices.Equal(types, []capsule.PersistentType{capsule.PersistentSMART, capsule.PersistentVendor, capsule.PersistentChangeNamespace, capsule.PersistentPowerOn}) || (at+3)/4*4 != length {
		t.Errorf("events %#x end at %d of %d", types, at, length)
	}
	ask(capsule.StatusSuccess, capsule.PersistentRelease, 4, 0)
	ask(capsule.StatusSuccess, capsule.PersistentRelease, 4, 0)
	for range 300 {
		f.target.log.Events.Record(events.Event{Kind: events.Change, Subsystem: testSubNQN, Host: testHostNQN, Text: string(make([]byte, 350))})
	}
	head = ask(capsule.StatusSuccess, capsule.PersistentEstablish, 512, 0)
	if n := binary.LittleEndian.Uint64(head[8:]); n > maxPersistentLog || n < maxPersistentLog-512 {
		t.Errorf("a full log has %d bytes", n)
	}
	h.setCC(linuxCC)
	ask(wrongOrder, capsule.PersistentRead, 512, 0)
}

// eventsIn returns the events of a log, with their headers.
func eventsIn(page []byte) (all [][]byte) {
	at := capsule.PersistentHeaderSize
	for range binary.LittleEndian.Uint32(page[4:]) {
		end := at + capsule.PersistentEventHeaderSize + int(binary.LittleEndian.Uint16(page[at+22:]))
		all = append(all, page[at:end])
		at = end
	}
	return all
}

// TestPowerCyclesOfLog: each power cycle keeps its number and firmware across restarts of targets, even if their
// logs are lost; they are ordered among the events by time.
func TestPowerCyclesOfLog(t *testing.T) {
	path := filepath.Join(t.TempDir(), "state")
	record := life.Record{PowerCycles: 6, Cycles: []life.Cycle{{Number: 5, At: 1000, Firmware: "1.0.0"}, {Number: 6, At: 2000, Firmware: "1.1.0"}}}
	b, err := record.Encode()
	if err == nil {
		err = os.WriteFile(path, b, 0o600)
	}
	if err != nil {
		t.Fatal(err)
	}
	read := func(want ...string) {
		t.Helper()
		f, s := living(t, StateFile(path))
		defer func() { f.must(f.target.Close()) }()
		f.target.cfg.Events.Begin("the start of a target is none of the subsystem")
		a := f.tenant("a", s, 0)
		page := make([]byte, maxPersistentLog)
		a.admin.wantOK(adminCommand(capsule.AdminGetLogPage, capsule.GetLogPage{LID: capsule.LogPersistentEvent, LSP: uint8(capsule.PersistentEstablish), Length: maxPersistentLog}, page))
		var got []string
		last := uint64(math.MaxUint64)
		for _, e := range eventsIn(page) {
			at := binary.LittleEndian.Uint64(e[6:]) & capsule.MaxTimestampMillis
			if at > last {
				t.Errorf("an event at %d is after one at %d", at, last)
			}
			last = at
			if data := e[capsule.PersistentEventHeaderSize:]; capsule.PersistentType(e[0]) == capsule.PersistentPowerOn {
				got = append(got, fmt.Sprintf("%d %s", binary.LittleEndian.Uint32(data[24:]), bytes.TrimSpace(data[:8])))
			}
		}
		if n := binary.LittleEndian.Uint64(page[44:]); !slices.Equal(got, want) || !strings.HasPrefix(want[0], fmt.Sprintf("%d ", n)) {
			t.Errorf("power cycles %q, want %q; the header says %d", got, want, n)
		}
		a.bye()
	}
	read("7 1.2.3", "6 1.1.0", "5 1.0.0")
	read("8 1.2.3", "7 1.2.3", "6 1.1.0", "5 1.0.0")
}

// TestPersistentEventsOfOthers: a host gets no events of other hosts, nor of namespaces that it does not see.
func TestPersistentEventsOfOthers(t *testing.T) {
	f := newFixture(t)
	f.connectAdmin(0)
	c := slices.Collect(maps.Values(f.sub.controllers))[0]
	for _, e := range []events.Event{
		{Kind: events.Connect, Subsystem: testSubNQN, Host: "nqn.another"},
		{Kind: events.Connect, Subsystem: "nqn.another", Host: testHostNQN},
		{Kind: events.Store, Text: "/srv/disk.img failed"},
		{Kind: events.Namespace, Subsystem: "nqn.another", NSID: 1, Text: textRemoved},
		{Kind: events.Change, Subsystem: testSubNQN, Text: "change"},
	} {
		if p, data := persistentEvent(c, &e); data != nil {
			t.Errorf("%+v is shown as %#x", e, p)
		}
	}
	if p, _ := persistentEvent(c, &events.Event{Kind: events.Namespace, Subsystem: testSubNQN, NSID: 1, Text: textRemoved}); p != capsule.PersistentChangeNamespace {
		t.Errorf("a namespace that it sees is shown as %#x", p)
	}
}

// TestPersistentEventsNameNobody: a host's events name no other host, even if that was preempted, or owns the
// identifier that this one uses; and hosts without a name get no events of administrators.
func TestPersistentEventsNameNobody(t *testing.T) {
	f := newFixture(t)
	a, b := f.tenant("a", f.sub, 0), f.tenant("bystander", f.sub, 1)
	a.register(capsule.StatusSuccess, 1)
	b.register(capsule.StatusSuccess, 1)
	a.io.wantOK(reserveCommand(capsule.IOReservationRelease, 1, capsule.ReservationCommand{Action: capsule.ClearReservation}, a.key, 0))
	b.register(capsule.StatusSuccess, 1)
	other := dataOf(f.sub.NQN(), "nqn.2014-08.org.nvmexpress:host:a")
	other.HostID = b.id
	f.dial(0, 0, 32).wantStatus(capsule.StatusConnectInvalidHost, connectCommand(capsule.Connect{SQSIZE: 31}, other))
	page := make([]byte, maxPersistentLog)
	read := func(h *hostQueue) {
		t.Helper()
		h.wantOK(adminCommand(capsule.AdminGetLogPage, capsule.GetLogPage{LID: capsule.LogPersistentEvent, LSP: uint8(capsule.PersistentEstablish), Length: maxPersistentLog}, page))
		if bytes.Contains(page, []byte("bystander")) {
			t.Errorf("it reads who else there is: %q", page)
		}
	}
	if read(a.admin); !bytes.Contains(page, []byte("reservation: cleared the reservation and all registrations")) || !bytes.Contains(page, []byte("refused: connect refused")) {
		t.Errorf("it does not read what it did itself: %q", page)
	}

	f.sub.AllowAnyHost(true)
	f.target.log.Events.Record(events.Event{Kind: events.Change, Subsystem: testSubNQN, Text: "host bystander may write"})
	h := f.dial(0, 0, 32)
	unnamed := dataOf(f.sub.NQN(), "no name")
	unnamed.HostNQN = capsule.NQNField{}
	h.wantOK(connectCommand(capsule.Connect{SQSIZE: 31}, unnamed))
	h.setCC(linuxCC)
	h.setCC(linuxCC.WithEnable(true))
	read(h)
}
