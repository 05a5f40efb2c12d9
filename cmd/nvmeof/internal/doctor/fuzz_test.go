package doctor

import (
	"bytes"
	"encoding/json"
	"io/fs"
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/fstest"
	"unicode"
)

// FuzzMachine reads files of the kernel with arbitrary text, in the form of those in testdata. There must be a report,
// without characters that a terminal would obey.
func FuzzMachine(f *testing.F) {
	names, err := filepath.Glob("testdata/*.machine")
	if err != nil || len(names) == 0 {
		f.Fatalf("no machines: %v", err)
	}
	for _, name := range names {
		text, err := os.ReadFile(name)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(string(text))
	}
	f.Add("proc/net/udp < 1: 00000000:12B7 0 0 0 0 0 0 0 5\nproc/7/fd/3 -> socket:[5]\nproc/7/comm = \x1b[2Jsystemd\u202e\n")
	f.Add("proc/self/status < Groups:" + strings.Repeat(" 4294967294", 7000) + "\nproc/self/status < CapEff: 0000000000005000\n")
	f.Add("sys/class/net/\x1b[31m/mtu = -1\nsys/class/infiniband/a/ports/-7/gids/9 = fe80::1%\x9b\nproc/sys/net/core/rmem_max = -9223372036854775808\n")
	f.Fuzz(func(t *testing.T, text string) {
		m := &machineFile{files: fstest.MapFS{}, owners: map[netip.Addr]string{}, Machine: &Machine{Processors: 4}}
		for line := range strings.Lines(text) {
			w := strings.Fields(line)
			known := len(w) == 3 && w[1] == "->" || len(w) > 2 && (w[1] == "=" || w[1] == "<")
			switch {
			case known && fs.ValidPath(w[0]) && w[0] != "." && line[0] != '@':
				m.read(t, strings.TrimSuffix(line, "\n"))
			case len(w) == 3 && w[0] == "@address":
				if p, err := netip.ParsePrefix(w[2]); err == nil {
					m.Addresses = append(m.Addresses, Address{w[1], p})
				}
			}
		}
		m.Files, m.Choose = m.files, m.choose
		m.Machine.Access = func(string) bool { return len(text)%2 == 0 }
		m.Machine.IOUring = func() error { return nil }
		r := Judge(Gather(m.Machine))
		var shown, encoded bytes.Buffer
		if err := Text(&shown, r); err != nil {
			t.Fatal(err)
		}
		for _, c := range shown.String() {
			if c != '\n' && unicode.IsControl(c) {
				t.Fatalf("the report has %q:\n%q", c, shown.String())
			}
		}
		if err := JSON(&encoded, r); err != nil || !json.Valid(encoded.Bytes()) {
			t.Fatalf("%v\n%s", err, encoded.Bytes())
		}
	})
}

// TestLongLine checks that text after a line of 64 KiB is read.
func TestLongLine(t *testing.T) {
	m := &Machine{Files: fstest.MapFS{"proc/self/status": {Data: []byte("Groups:" + strings.Repeat(" 4294967294", 7000) + "\nCapEff:\t0000000000005000\n")}}}
	g := &gatherer{Machine: m, facts: &Facts{}}
	if n := g.capabilities(); n != 0x5000 {
		t.Errorf("capabilities %#x", n)
	}
}
