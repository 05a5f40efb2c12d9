package perftest

import (
	"bytes"
	"encoding/hex"
	"math"
	"net/netip"
	"strings"
	"testing"
)

// TestDestination uses a message that ib_write_bw 6.24 sends, with another PSN.
func TestDestination(t *testing.T) {
	d := Destination{Reads: 16, QPN: 0x11, RKey: 0x1234, VAddr: 0x7f0011223344, Addr: netip.MustParseAddr("10.9.0.2")}
	const want = "00000000" + "00000010" + "00000011" + "00000000" + "00001234" + "00000000" + "00007f0011223344" +
		"00000000000000000000ffff0a090002" + "00000000" + "00000001"
	b := d.Encode()
	if got := hex.EncodeToString(b); got != want {
		t.Errorf("%s, want\n%s", got, want)
	}
	copy(b[12:], "\x00\xab\xcd\xef")
	if got, err := ParseDestination(b); err != nil || got != d {
		t.Errorf("%+v, %v", got, err)
	}
	if got := (Destination{Reads: 16}).Encode(); !bytes.Equal(got, make([]byte, 56)) {
		t.Errorf("one that is not filled yet: %x", got)
	}
	if _, err := ParseDestination(make([]byte, 64)); err == nil {
		t.Error("64 bytes are taken")
	}
}

func TestVersions(t *testing.T) {
	for text, ok := range map[string]bool{
		"6.24": true, "6.06": true, "5.70": true, "6.27": true,
		"5.60": false, "6.28": false, "7.0": false, "": false, "NaN": false, "GET / HTTP/1.1": false,
	} {
		b := make([]byte, 16)
		copy(b, text)
		if err := CheckVersion(b); (err == nil) != ok {
			t.Errorf("%q: %v", text, err)
		}
	}
	if err := CheckVersion([]byte(strings.Repeat("6", 16))); err == nil {
		t.Error("a version without an end is taken")
	}
	if err := CheckVersion(VersionMessage()); err != nil {
		t.Error(err)
	}
}

func TestReportIsReadBack(t *testing.T) {
	b := Bandwidth{Size: 65536, Iterations: 1000, Peak: 12.5, Average: 11.25, Rate: 0.0625}
	for _, m := range b.Messages() {
		if len(m) != ReportSize {
			t.Errorf("message of %d bytes", len(m))
		}
	}
	if got, err := ParseBandwidth(b.Messages()); got != b || err != nil {
		t.Errorf("%+v", got)
	}
}

// TestReportThatCannotBe checks that impossible values from the other side are rejected: they would be printed, also
// as JSON, which has no NaN.
func TestReportThatCannotBe(t *testing.T) {
	for i, b := range []Bandwidth{
		{Peak: math.NaN()}, {Average: math.Inf(1)}, {Rate: -1}, {Size: -1}, {Iterations: math.MinInt64},
	} {
		if got, err := ParseBandwidth(b.Messages()); err == nil {
			t.Errorf("report %d is taken for %+v", i, got)
		}
	}
}
