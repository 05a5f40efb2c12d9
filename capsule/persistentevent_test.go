package capsule_test

import (
	"encoding/hex"
	"strings"
	"testing"

	"github.com/nvmeof-go/nvmeof/capsule"
)

// TestPersistentEvents compares header and events with bytes written by hand from NVMe base 2.0, 5.16.1.14.
func TestPersistentEvents(t *testing.T) {
	p := capsule.PersistentLog{Events: 2, Length: 0x300, Timestamp: 0x0123456789ab, PowerOnHours: 7, PowerCycles: 8, SubNQN: capsule.MakeNQNField("nqn.x"),
		Supported: []capsule.PersistentType{capsule.PersistentSMART, capsule.PersistentPowerOn, capsule.PersistentVendor}}
	capsule.PutText(p.SN[:], "SN")
	capsule.PutText(p.MN[:], "MN")
	b := make([]byte, capsule.PersistentHeaderSize)
	p.Encode(b)
	want := func(at int, text string) {
		t.Helper()
		text = strings.ReplaceAll(text, " ", "")
		if got := hex.EncodeToString(b[at : at+len(text)/2]); got != text {
			t.Errorf("at %d: %s, want %s", at, got, text)
		}
	}
	want(0, "0d000000 02000000 0003000000000000 03 00 ec01 ab89674523010200 0700000000000000")
	want(44, "0800000000000000 0000 0000 534e2020")
	want(76, "4d4e2020")
	want(116, "6e716e2e7800")
	want(480, "12")
	want(507, "40")

	e := capsule.PersistentEvent{Type: capsule.PersistentVendor, CNTLID: 0x102, Timestamp: 1, PortID: 3, Data: capsule.PersistentText(0x0405, "ab")}
	b = e.Append(nil)
	want(0, "de 01 15 00 0201 0100000000000200 0300 00000000 0000 0800 0504 02 00 0200 6162")
	b = capsule.PersistentPowerOnData("1.0", 5, 6, 7)
	want(0, "312e302020202020 0500 00 00 000000000000000000000000 06000000 0000000000000000 0700000000000200")
	b = capsule.PersistentNamespaceData(9, 2, 0x100, true)
	want(0, "01000000 00000000 0001000000000000 0000000000000000 0001000000000000 00000000 02000000 0000 0000 09000000")
}
