package target

import (
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"time"

	"github.com/nvmeof-go/nvmeof/capsule"
	"github.com/nvmeof-go/nvmeof/nvmeof"
)

// This file has helpers for tests of an administrator's changes.

const otherHostNQN = "nqn.2026-11.io.example:other"

// An association is a host's admin queue and one I/O queue.
type association struct {
	f         *fixture
	admin, io *hostQueue
	id        capsule.ControllerID
}

// associate connects a host through a listener; the admin queue reports all events.
func (f *fixture) associate(host nvmeof.NQN, at *Listener) *association {
	f.t.Helper()
	f.at = at
	h := f.dial(0, 0, 32)
	r := h.wantOK(connectCommand(capsule.Connect{SQSIZE: 31}, dataOf(f.sub.nqn, host)))
	a := &association{f: f, admin: h, id: capsule.ParseConnectResponse(r.result).CNTLID}
	h.setCC(linuxCC)
	h.setCC(linuxCC.WithEnable(true))
	h.wantOK(adminCommand(capsule.AdminSetFeatures, capsule.SetFeatures{FID: capsule.FeatureAsyncEvent,
		Value: capsule.EventNamespaceAttribute | capsule.EventANAChange}, nil))
	a.io = f.dial(1, 1, 128)
	d := dataOf(f.sub.nqn, host)
	d.CNTLID = a.id
	a.io.wantOK(connectCommand(capsule.Connect{QID: 1, SQSIZE: 127}, d))
	return a
}

// dataOf returns a host's Connect data.
func dataOf(subsystem, host nvmeof.NQN) capsule.ConnectData {
	d := connectData()
	d.SubNQN, d.HostNQN = nqnField(subsystem), nqnField(host)
	copy(d.HostID[3:], host[len(host)-5:])
	return d
}

// listen adds a listener.
func (f *fixture) listen(addr string) *Listener {
	f.t.Helper()
	l, err := f.target.Listen(netip.MustParseAddrPort(addr))
	if err != nil {
		f.t.Fatal(err)
	}
	return l
}

func (f *fixture) must(err error) {
	f.t.Helper()
	if err != nil {
		f.t.Fatal(err)
	}
}

func readOf(id capsule.NSID) *hostCommand {
	return ioCommand(capsule.IORead, id, capsule.ReadWrite{Blocks: 1}, make([]byte, 512))
}

func writeOf(id capsule.NSID) *hostCommand {
	return ioCommand(capsule.IOWrite, id, capsule.ReadWrite{Blocks: 1}, make([]byte, 512))
}

// sees checks which namespaces the host's lists have.
func (a *association) sees(want ...capsule.NSID) {
	a.f.t.Helper()
	for _, cns := range []capsule.CNS{capsule.CNSActiveNamespaces, capsule.CNSAllocatedNamespaces, capsule.CNSActiveNamespacesCSI} {
		var got []capsule.NSID
		list := identifyInto(a.admin, cns, 0)
		for i := 0; capsule.NSIDAt(list, i) != 0; i++ {
			got = append(got, capsule.NSIDAt(list, i))
		}
		if !slices.Equal(got, want) {
			a.f.t.Errorf("CNS %#x lists %v, want %v", cns, got, want)
		}
	}
}

// event starts an Asynchronous Event Request.
func (a *association) event() *hostCommand {
	a.f.t.Helper()
	return a.admin.start(adminCommand(capsule.AdminAsyncEvent, nil, nil))
}

// wantEvent waits for the event and reads its log page, which unmasks it.
func (a *association) wantEvent(c *hostCommand, info uint8, lid capsule.LID) []byte {
	a.f.t.Helper()
	r := <-c.response
	want := capsule.AsyncEvent{Type: capsule.EventTypeNotice, Info: info, LID: lid}
	if got := capsule.ParseAsyncEvent(uint32(r.result)); !r.status.OK() || got != want {
		a.f.t.Errorf("event %+v, %v, want %+v", got, r.status, want)
	}
	return logInto(a.admin, lid, 4096, 0)
}

// wantChanged checks for an event, and that these namespaces are in the log.
func (a *association) wantChanged(c *hostCommand, want ...capsule.NSID) {
	a.f.t.Helper()
	list := a.wantEvent(c, capsule.NoticeNamespaceChanged, capsule.LogChangedNamespaces)
	var got []capsule.NSID
	for i := 0; capsule.NSIDAt(list, i) != 0; i++ {
		got = append(got, capsule.NSIDAt(list, i))
	}
	if !slices.Equal(got, want) {
		a.f.t.Errorf("changed namespaces %v, want %v", got, want)
	}
}

func (a *association) identify(id capsule.NSID) capsule.IdentifyNamespace {
	a.f.t.Helper()
	ns, err := capsule.DecodeIdentifyNamespace(identifyInto(a.admin, capsule.CNSNamespace, id))
	a.f.must(err)
	return ns
}

// remedied checks that there is one line with that message, and that its remedy begins with that text.
func (f *fixture) remedied(message, remedy string) {
	f.t.Helper()
	lines := f.logs.FilterMessage(message).All()
	if len(lines) != 1 || !strings.HasPrefix(fmt.Sprint(lines[0].ContextMap()["remedy"]), remedy) {
		f.t.Errorf("%q: %v, want one with the remedy %s", message, lines, remedy)
	}
}

// refused connects an admin queue, which must be refused with one log line that contains all of the words.
func (f *fixture) refused(want capsule.Status, d capsule.ConnectData, words ...string) {
	f.t.Helper()
	h := f.dial(0, 0, 32)
	f.logs.TakeAll()
	h.wantStatus(want, connectCommand(capsule.Connect{SQSIZE: 31}, d))
	lines := f.logs.FilterMessage("connect refused").All()
	if len(lines) != 1 {
		f.t.Fatalf("%d lines of a refusal", len(lines))
	}
	var line string
	for k, v := range lines[0].ContextMap() {
		if s, ok := v.(string); ok {
			line += " " + k + "=" + s
		}
	}
	for _, w := range append(words, "remedy=", "reason=", "host="+d.HostNQN.String()) {
		if !strings.Contains(line, w) {
			f.t.Errorf("the line lacks %q: %s", w, line)
		}
	}
	h.lose()
}

// logged returns the number of log lines with that message.
func (f *fixture) logged(msg string) int { return f.logs.FilterMessage(msg).Len() }

// within lets shards turn until ok returns true.
func (f *fixture) within(h *hostQueue, what string, ok func() bool) {
	f.t.Helper()
	for i := range 100000 {
		if ok() {
			return
		}
		if h.turns(1); i > 1000 { // another shard may not have had a processor yet
			time.Sleep(100 * time.Microsecond)
		}
	}
	f.t.Fatalf("it does not come to pass: %s", what)
}
