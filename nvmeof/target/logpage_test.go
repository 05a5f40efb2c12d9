package target

import (
	"bytes"
	"testing"

	"github.com/nvmeof-go/nvmeof/capsule"
)

// TestEffectsOfOtherCommandSets: they have no I/O commands, if the host has enabled the selection of sets.
func TestEffectsOfOtherCommandSets(t *testing.T) {
	f := newFixture(t)
	h, _ := f.connectAdmin(0)
	wantIO := func(want bool, csi capsule.CSI) {
		t.Helper()
		b := make([]byte, capsule.EffectsLogSize)
		h.wantOK(adminCommand(capsule.AdminGetLogPage, capsule.GetLogPage{LID: capsule.LogEffects, Length: capsule.EffectsLogSize, CSI: csi}, b))
		if has := !bytes.Equal(b[1024:2048], make([]byte, 1024)); has != want || b[4*capsule.AdminIdentify] == 0 {
			t.Errorf("set %d: I/O commands are there: %v, want %v", csi, has, want)
		}
	}
	wantIO(true, capsule.CSINVM)
	wantIO(false, capsule.CSINVM+2)
	h.setCC(0)
	h.setCC(0x460000)
	h.setCC(capsule.CC(0x460000).WithEnable(true)) // the NVM command set alone: CSI is reserved
	wantIO(true, capsule.CSINVM+2)
}

// TestANALogPastItsEnd: hosts that read the maximum length of the page get zeroes behind its end.
func TestANALogPastItsEnd(t *testing.T) {
	f := newFixture(t)
	h, _ := f.connectAdmin(0)
	id, err := capsule.DecodeIdentifyController(identifyInto(h, capsule.CNSController, 0))
	if err != nil {
		t.Fatal(err)
	}
	largest := uint64(capsule.ANALogHeaderSize + id.NANAGRPID*capsule.ANADescriptorHeader + id.MNAN*4)
	for at := uint64(0); at < largest; at += 4096 {
		b := logInto(h, capsule.LogANA, int(min(4096, largest-at)), at)
		if at > 0 && !bytes.Equal(b, make([]byte, len(b))) {
			t.Errorf("not zeroes at %d", at)
		}
	}
	h.wantStatus(invalidField, adminCommand(capsule.AdminGetLogPage,
		capsule.GetLogPage{LID: capsule.LogANA, Length: 16, LPO: largest + 4}, make([]byte, 16)))
}

// TestDiscoveryHasItsPages: a discovery controller has the pages that LPA and its list of supported pages report.
func TestDiscoveryHasItsPages(t *testing.T) {
	f := newFixture(t)
	h := f.connectDiscovery(testHostNQN)
	id, err := capsule.DecodeIdentifyController(identifyInto(h, capsule.CNSController, 0))
	if err != nil || id.LPA != capsule.LPAEffects|capsule.LPAExtendedData|capsule.LPASupport {
		t.Errorf("LPA %#x, %v", id.LPA, err)
	}
	listed := logInto(h, capsule.LogSupportedPages, 1024, 0)
	for lid := range 256 {
		want := capsule.StatusSuccess
		if listed[4*lid] == 0 {
			want = capsule.StatusInvalidLogPage | dnr
		}
		h.wantStatus(want, adminCommand(capsule.AdminGetLogPage, capsule.GetLogPage{LID: capsule.LID(lid), Length: 16}, make([]byte, 16)))
	}
	for _, lid := range []capsule.LID{capsule.LogEffects, capsule.LogFIDEffects, capsule.LogMIEffects} {
		if listed[4*int(lid)] == 0 {
			t.Errorf("page %02xh, which LPA announces, is not supported", uint8(lid))
		}
	}
	effects := logInto(h, capsule.LogEffects, 4096, 0)
	if effects[4*int(capsule.AdminAbort)] != 0 || effects[4*int(capsule.AdminIdentify)] == 0 || !bytes.Equal(effects[1024:2048], make([]byte, 1024)) {
		t.Error("the effects are not those of a discovery controller")
	}
}
