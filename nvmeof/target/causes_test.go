package target

import (
	"maps"
	"testing"
	"testing/synctest"

	"github.com/nvmeof-go/nvmeof/capsule"
)

// TestCauses: occurrences are counted with their causes.
func TestCauses(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFixture(t)
		silent, id := f.connectAdmin(5000)
		io := f.connectIO(id, 1, 1)
		<-silent.closed // its keep alive timeout
		<-io.closed

		if !f.store.TryLease(0, 4096, true) {
			t.Fatal("no lease")
		}
		admin, io := f.both()
		waits := io.start(ioCommand(capsule.IOWrite, 1, capsule.ReadWrite{Blocks: 8}, make([]byte, 4096)))
		waits.wantPending()
		admin.wantOK(adminCommand(capsule.AdminAbort, capsule.Abort{SQID: 1, CID: waits.sqe.CID}, nil))
		f.store.Release(0, 4096, true)
		admin.wantStatus(capsule.StatusInvalidOpcode|dnr, adminCommand(0x99, nil, nil))
		admin.lose()
		<-io.closed

		f.sub.RemoveHost(testHostNQN)
		refused := f.dial(0, 0, 32)
		refused.wantStatus(capsule.StatusConnectInvalidHost|dnr, connectCommand(capsule.Connect{SQSIZE: 31}, connectData()))
		<-refused.closed // it sends no other Connect command

		got := map[Cause]uint64{}
		for c, n := range f.target.Measure().Causes {
			if c.Kind != CauseAdmin || c.Cause == "unknown" || c.Cause == "abort" {
				got[c] = n
			}
		}
		want := map[Cause]uint64{
			{Kind: CauseConnect, Subsystem: "", Cause: "ok", Detail: ""}:                4,
			{Kind: CauseConnect, Subsystem: "", Cause: "host_not_allowed", Detail: ""}:  1,
			{Kind: CauseKeepAlive, Subsystem: testSubNQN, Cause: "", Detail: ""}:        1,
			{Kind: CauseDisconnect, Subsystem: "", Cause: "keepalive", Detail: "admin"}: 1,
			{Kind: CauseDisconnect, Subsystem: "", Cause: "keepalive", Detail: "io"}:    1,
			{Kind: CauseDisconnect, Subsystem: "", Cause: "lost", Detail: "admin"}:      1,
			{Kind: CauseDisconnect, Subsystem: "", Cause: "association", Detail: "io"}:  1,
			{Kind: CauseDisconnect, Subsystem: "", Cause: "silent", Detail: "admin"}:    1,
			{Kind: CauseAbort, Subsystem: "", Cause: "host", Detail: ""}:                1,
			{Kind: CauseAdmin, Subsystem: "", Cause: "abort", Detail: "ok"}:             1,
			{Kind: CauseAdmin, Subsystem: "", Cause: "unknown", Detail: "0_01"}:         1,
		}
		if !maps.Equal(got, want) {
			t.Errorf("%v\nwant %v", got, want)
		}
		f.close2(t)
	})
}
