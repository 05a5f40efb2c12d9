package target

import (
	"encoding/binary"
	"maps"
	"slices"
	"testing"

	"github.com/nvmeof-go/nvmeof/capsule"
	"github.com/nvmeof-go/nvmeof/nvmeof/events"
)

// TestPersistentEventLog reads the log in parts of one context, and finds what concerns the host.
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
	for range binary.LittleEndian.Uint32(head[4:]) {
		types = append(types, capsule.PersistentType(page[at]))
		at += capsule.PersistentEventHeaderSize + int(binary.LittleEndian.Uint16(page[at+22:]))
	}
	if !slices.Equal(types, []capsule.PersistentType{capsule.PersistentSMART, capsule.PersistentVendor, capsule.PersistentPowerOn, capsule.PersistentChangeNamespace}) || (at+3)/4*4 != length {
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

// TestPersistentEventsOfOthers: a host reads nothing about others, nor about what it does not see.
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
		if p, data := persistentEvent(c, &e, 1); data != nil {
			t.Errorf("%+v is shown as %#x", e, p)
		}
	}
	if p, _ := persistentEvent(c, &events.Event{Kind: events.Namespace, Subsystem: testSubNQN, NSID: 1, Text: textRemoved}, 1); p != capsule.PersistentChangeNamespace {
		t.Errorf("a namespace that it sees is shown as %#x", p)
	}
}
