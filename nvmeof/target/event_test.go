package target

import (
	"slices"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/nvmeof-go/nvmeof/capsule"
	"github.com/nvmeof-go/nvmeof/nvmeof/events"
)

// recorded checks that the events of namespaces have exactly these texts, in that order.
func (f *fixture) recorded(texts ...string) {
	f.t.Helper()
	var got []string
	for _, e := range f.target.cfg.Events.After(0, 0) {
		if e.Kind == events.Namespace && e.NSID != 0 && !strings.HasPrefix(e.Text, "namespace added") {
			got = append(got, e.Text)
		}
	}
	if !slices.Equal(got, texts) {
		f.t.Errorf("events %q, want %q", got, texts)
	}
}

// TestRecordedEvents: events of hosts and reservations are recorded with names, and without keys.
func TestRecordedEvents(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFixture(t)
		a, b := f.tenant("a", f.sub, 0), f.tenant("b", f.sub, 0)
		a.key, b.key = 0xdead0001, 0xdead0002
		a.register(capsule.StatusSuccess, 1)
		b.register(capsule.StatusSuccess, 1)
		a.acquire(capsule.StatusSuccess, 1, capsule.ReservationWriteExclusive)
		b.io.wantOK(b.preempt(1, capsule.PreemptReservation, capsule.ReservationExclusiveAccess, a.key))
		f.sub.RemoveHost(nqnA)
		<-a.admin.closed
		b.admin.lose()
		<-b.io.closed
		refused := f.dial(0, 0, 32)
		d := connectData()
		d.HostNQN = nqnField(nqnA)
		refused.wantStatus(capsule.StatusConnectInvalidHost|dnr, connectCommand(capsule.Connect{SQSIZE: 31}, d))
		<-refused.closed
		var got []string
		for _, e := range f.target.cfg.Events.After(0, 0) {
			host := e.Host[strings.LastIndexByte(e.Host, ':')+1:]
			text, _, _ := strings.Cut(e.Text, ": nvmeof host add")
			got = append(got, strings.Join([]string{string(e.Kind), string(e.Severity), host, text}, " "))
			if e.Subsystem == "" && (host != "" || e.NSID != 0) {
				t.Errorf("%+v", e)
			}
		}
		want := []string{
			"connect info a connected", "connect info b connected",
			"reservation info a registered; now no reservation, 1 registered",
			"reservation info b registered; now no reservation, 2 registered",
			"reservation info a acquired; now write-exclusive, 2 registered",
			"reservation info b preempted; now exclusive-access, 1 registered; no longer registered: nqn.2014-08.org.nvmexpress:host:a",
			"disconnect info a disconnected: host is no longer allowed",
			"lost warning b queue 0 lost: ",
			"refused warning a connect refused: host is not allowed",
		}
		all := strings.Join(got, "\n")
		for _, line := range want {
			if !strings.Contains(all, line) {
				t.Errorf("no %q in\n%s", line, all)
			}
		}
		if strings.Contains(all, "dead") || strings.Contains(all, "3735") {
			t.Errorf("a key is in\n%s", all)
		}
		f.close2(t)
	})
}
