package capsule

import (
	"bytes"
	"encoding/hex"
	"testing"
)

// TestCopyEntry: ranges as sent by nvme-cli 2.13.
func TestCopyEntry(t *testing.T) {
	r := CopyEntry{NSID: 2, SLBA: 1, Blocks: 8, Options: 3, ReferenceTag: 1, ApplicationTag: 4, ApplicationMask: 7}
	for format, want := range []string{
		"0000000000000000" + "0100000000000000" + "0700000000000000" + "0100000004000700",
		"0000000000000000" + "0100000000000000" + "0700000000000000" + "0000000000000000" + "0000000104000700",
		"0200000000000000" + "0100000000000000" + "0700000000000300" + "0100000004000700",
		"0200000000000000" + "0100000000000000" + "0700000000000300" + "0000000000000000" + "0000000104000700",
	} {
		b := bytes.Repeat([]byte{0xff}, CopyEntrySize(uint8(format)))
		r.Encode(uint8(format), b)
		if got := hex.EncodeToString(b); got != want {
			t.Errorf("format %d: %s, want %s", format, got, want)
		}
	}
}
