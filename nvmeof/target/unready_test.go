package target

import (
	"testing"

	"github.com/nvmeof-go/nvmeof/capsule"
)

// TestUnreadyHost: a host that is not ready is refused temporarily, on every queue and even if all hosts are
// allowed, and is not admitted without its key afterwards.
func TestUnreadyHost(t *testing.T) {
	k := newKeyed(t)
	_, cntlid := k.admin()
	k.must(k.sub.SetHost(HostConfig{NQN: testHostNQN, Unready: "open /keys/host: no such file"}))
	for _, all := range []bool{false, true} {
		k.sub.AllowAnyHost(all)
		k.refused(capsule.StatusConnectControllerBusy, connectData(), "/keys/host", "nvmeof ls")
		h := k.dial(1, 1, 32)
		d := connectData()
		d.CNTLID = cntlid
		h.wantStatus(capsule.StatusConnectControllerBusy, connectCommand(capsule.Connect{QID: 1, SQSIZE: 31}, d))
		h.lose()
	}
	k.allow(k.key, k.ctrlKey)
	h, r := k.connect(0, capsule.ControllerIDDynamic)
	if !r.ATR {
		t.Error("it is let in without its key")
	}
	h.wantStatus(capsule.StatusAuthenticationRequired|dnr, fabricsCommand(capsule.FabricsPropertyGet, capsule.Property{Offset: uint32(capsule.PropertyCSTS)}))
	k.must(k.sub.SetHost(HostConfig{NQN: testHostNQN, Unready: "gone again"})) // between Connect and authentication
	x := k.exchange()
	h.wantStatus(capsule.StatusCommandInterrupted, authSendCommand(x.Pending()))
	k.allow(k.key, k.ctrlKey)
	h.authenticate(x)
	h.wantOK(fabricsCommand(capsule.FabricsPropertyGet, capsule.Property{Offset: uint32(capsule.PropertyCSTS)}))
}
