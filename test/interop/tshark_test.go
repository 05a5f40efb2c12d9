package interop

import (
	"fmt"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// A malformedKind is a kind of packet that tshark calls malformed: packets of one BTH opcode, in one of its dissectors.
type malformedKind struct{ opcode, dissector string }

// tsharkMalformed counts the packets of a capture that tshark calls malformed, by kind. The filter, in tshark's
// language, selects packets.
func tsharkMalformed(path, filter string) (map[malformedKind]int, error) {
	cmd := exec.Command("tshark", "-n", "-r", path, "-Y", strings.TrimSuffix("_ws.malformed && "+filter, " && "),
		"-T", "fields", "-E", "occurrence=f", "-E", "separator=|", "-e", "infiniband.bth.opcode", "-e", "_ws.malformed")
	var stderr strings.Builder
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if err != nil {
		return nil, fmt.Errorf("tshark: %w: %s", err, stderr.String())
	}
	kinds := map[malformedKind]int{}
	for line := range strings.Lines(string(out)) {
		opcode, what, ok := strings.Cut(strings.TrimSpace(line), "|")
		if !ok {
			return nil, fmt.Errorf("tshark printed %q", line)
		}
		// "[Malformed Packet: RPCoRDMA]", or the bare name in later versions.
		what = strings.TrimSuffix(strings.TrimPrefix(what, "[Malformed Packet: "), "]")
		kinds[malformedKind{opcode, what}]++
	}
	return kinds, nil
}

// kernelMalformed returns the kinds that tshark finds in captures of two kernels.
func kernelMalformed(t *testing.T, names string) map[malformedKind]int {
	t.Helper()
	captures, err := filepath.Glob("../golden/testdata/" + names + ".pcap")
	if err != nil || len(captures) == 0 {
		t.Fatalf("no recorded captures: %v", err)
	}
	all := map[malformedKind]int{}
	for _, c := range captures {
		kinds, err := tsharkMalformed(c, "")
		if err != nil {
			t.Fatal(err)
		}
		for k, n := range kinds {
			all[k] += n
		}
	}
	return all
}

// needTshark fails the test if guests run but tshark is missing, and skips it elsewhere.
func needTshark(t *testing.T) {
	t.Helper()
	if _, err := exec.LookPath("tshark"); err == nil {
		return
	}
	if *boots {
		t.Fatal("tshark is not installed: apt-get install tshark")
	}
	t.Skip("tshark is not installed")
}

// wantWellFormed: "tshark reports no malformed packet in what we send, except for
// the message kinds that it calls malformed in the kernel's own captures too (the
// test makes that list from golden/)."
func (l *lab) wantWellFormed(t *testing.T, capture string) {
	t.Helper()
	needTshark(t)
	found, err := tsharkMalformed(capture, "(ip.src == 10.9.0.1 || ipv6.src == fd09::1)")
	if err != nil {
		t.Fatal(err)
	}
	if l.malformed == nil {
		l.malformed = kernelMalformed(t, "*")
	}
	for k, n := range found {
		if l.malformed[k] == 0 {
			t.Errorf("tshark calls %d of our packets malformed: BTH opcode %s, %s; see %s", n, k.opcode, k.dissector, capture)
		}
	}
}

func TestKernelMalformed(t *testing.T) {
	needTshark(t)
	kinds := kernelMalformed(t, "*-connect")
	if len(kinds) == 0 || len(kinds) > 10 {
		t.Errorf("tshark finds %d malformed kinds in the kernel's captures: %v", len(kinds), kinds)
	}
	for k := range kinds {
		if k.opcode == "" || k.dissector == "" {
			t.Errorf("kind %+v is not understood", k)
		}
	}
}
