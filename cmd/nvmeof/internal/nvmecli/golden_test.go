package nvmecli

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/nvmeof-go/nvmeof/capsule"
	"github.com/nvmeof-go/nvmeof/test/golden"
)

func read(t *testing.T, name string) []byte {
	t.Helper()
	b, err := os.ReadFile(filepath.Join("testdata", name))
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// wantText compares output with that of nvme-cli, and names the first line that differs.
func wantText(t *testing.T, got, want string) {
	t.Helper()
	if got == want {
		return
	}
	g, w := strings.Split(got, "\n"), strings.Split(want, "\n")
	for i := range max(len(g), len(w)) {
		if i >= len(g) || i >= len(w) || g[i] != w[i] {
			t.Fatalf("line %d of %d is %q, want %q of %d", i+1, len(g), line(g, i), line(w, i), len(w))
		}
	}
}

func line(lines []string, i int) string {
	if i < len(lines) {
		return lines[i]
	}
	return "(end)"
}

// printed returns what a print function writes.
func printed(t *testing.T, print func(*bytes.Buffer) error) string {
	t.Helper()
	var b bytes.Buffer
	if err := print(&b); err != nil {
		t.Fatal(err)
	}
	return b.String()
}

func parseDiscovery(t *testing.T, b []byte) *Discovery {
	t.Helper()
	h, err := capsule.DecodeDiscoveryHeader(b)
	if err != nil {
		t.Fatal(err)
	}
	d := &Discovery{Generation: h.GENCTR}
	for b = b[capsule.DiscoveryHeaderSize:]; len(d.Entries) < int(h.NUMREC); b = b[capsule.DiscoveryEntrySize:] {
		e, err := capsule.DecodeDiscoveryEntry(b)
		if err != nil {
			t.Fatal(err)
		}
		d.Entries = append(d.Entries, e)
	}
	return d
}

func TestDiscovery(t *testing.T) {
	d := parseDiscovery(t, read(t, "discover.bin"))
	wantText(t, printed(t, func(b *bytes.Buffer) error { return d.Text(b) }), string(read(t, "discover.txt")))
	wantText(t, printed(t, func(b *bytes.Buffer) error { return d.JSON(b) }), string(read(t, "discover.json")))
}

func TestController(t *testing.T) {
	data := read(t, "id-ctrl.bin")
	wantText(t, printed(t, func(b *bytes.Buffer) error { return Output{W: b}.IdentifyController(data, false) }), string(read(t, "id-ctrl.txt")))
	wantText(t, printed(t, func(b *bytes.Buffer) error { return Output{W: b, JSON: true}.IdentifyController(data, false) }), string(read(t, "id-ctrl.json")))
}

func TestNamespace(t *testing.T) {
	data := read(t, "id-ns.bin")
	wantText(t, printed(t, func(b *bytes.Buffer) error { return Output{W: b}.IdentifyNamespace(2, data, false) }), string(read(t, "id-ns.txt")))
	wantText(t, printed(t, func(b *bytes.Buffer) error { return Output{W: b, JSON: true}.IdentifyNamespace(2, data, false) }), string(read(t, "id-ns.json")))
}

func TestList(t *testing.T) {
	device := Device{Serial: "SERIAL0001", Model: "Loop Model", Firmware: "6.12.107"}
	one, two := device, device
	one.Node, one.Generic, one.NSID, one.Used, one.Size, one.BlockSize = "/dev/nvme0n1", "/dev/ng0n1", 2, 1<<30, 1<<30, 512
	two.Node, two.Generic, two.NSID, two.Used, two.Size, two.BlockSize = "/dev/nvme0n2", "/dev/ng0n2", 1, 256<<20, 256<<20, 4096
	devices := []Device{one, two}
	wantText(t, printed(t, func(b *bytes.Buffer) error { return ListText(b, devices) }), string(read(t, "list.txt")))
	wantText(t, printed(t, func(b *bytes.Buffer) error { return ListJSON(b, devices) }), string(read(t, "list.json")))
}

func TestListVerbose(t *testing.T) {
	device := func(node string, nsid uint32, block int, used uint64) Device {
		return Device{Node: node, Generic: "ng" + node[4:], NSID: nsid, Used: used, Size: 64 << 20, BlockSize: block}
	}
	path := func(name, addr string, id uint16, ways ...Way) Path {
		return Path{Name: name, Transport: "rdma", Address: "traddr=" + addr + ",trsvcid=4420", ControllerID: id, Ways: ways}
	}
	one := Subsystem{
		Name: "nvme-subsys0", NQN: "nqn.2026-11.org.example:disk", HostNQN: "nqn.host", HostID: "0a1b2c3d-0000-4000-8000-000000000001",
		Model: "nvmeof-go", Firmware: "0.1", Serial: "0123456789abcdef0123",
		Paths:      []Path{path("nvme0", "10.9.0.2", 1, Way{"nvme0c0n1", "optimized"}, Way{"nvme0c0n2", "optimized"})},
		Namespaces: []Device{device("nvme0n1", 1, 512, 51200), device("nvme0n2", 2, 512, 51200)},
	}
	two := one
	two.Name, two.NQN, two.Serial, two.Namespaces = "nvme-subsys1", "nqn.2026-11.org.example:two", "SERIAL0002", []Device{device("nvme1n1", 1, 4096, 409600)}
	two.Paths = []Path{path("nvme1", "10.9.0.1", 1, Way{"nvme1c1n1", "optimized"}), path("nvme2", "10.9.0.2", 2, Way{"nvme1c2n1", "inaccessible"})}
	all := []Subsystem{one, two}
	wantText(t, printed(t, func(b *bytes.Buffer) error { return ListVerboseText(b, all) }), string(read(t, "list-v.txt")))
	wantText(t, printed(t, func(b *bytes.Buffer) error { return ListVerboseJSON(b, all) }), string(read(t, "list-v.json")))
	all[1].Namespaces[0].URI = "nbd+unix:///x"
	if text := printed(t, func(b *bytes.Buffer) error { return ListVerboseText(b, all) }); !strings.HasSuffix(text, "\n\nnvme1n1 nbd+unix:///x\n") {
		t.Errorf("no URI at the end of %s", text)
	}
}

// written returns what the target wrote to the host by RDMA WRITE, message by message, in a capture without loss.
func written(t *testing.T, capture string) [][]byte {
	t.Helper()
	packets, err := golden.Load(capture)
	if err != nil {
		t.Fatal(err)
	}
	const first, middle, last, only = 0x06, 0x07, 0x08, 0x0a // RDMA WRITE (IBTA 9.2.1)
	const bth, reth, icrc = 12, 16, 4
	var all [][]byte
	var message []byte
	for _, p := range packets {
		header := bth
		switch p.Payload[0] {
		case first, only:
			message, header = nil, bth+reth
		case middle, last:
		default:
			continue
		}
		pad := int(p.Payload[1] >> 4 & 3)
		message = append(message, p.Payload[header:len(p.Payload)-icrc-pad]...)
		if p.Payload[0] == last || p.Payload[0] == only {
			all = append(all, message)
		}
	}
	return all
}

// unpadded removes the spaces at the ends of lines, which test/golden's texts do not have.
func unpadded(s string) string {
	lines := strings.Split(s, "\n")
	for i := range lines {
		lines[i] = strings.TrimRight(lines[i], " ")
	}
	return strings.Join(lines, "\n")
}

// TestRecordedTraffic prints the data in the recorded traffic and compares it with what nvme-cli printed at the time.
func TestRecordedTraffic(t *testing.T) {
	found := map[string]bool{}
	check := func(name string, print func(*bytes.Buffer) error) {
		found[name] = true
		t.Run(name, func(t *testing.T) { wantText(t, unpadded(printed(t, print)), golden.Text(name)) })
	}
	// nvme-cli reads 20 bytes of the header, then the entries.
	log := make([]byte, capsule.DiscoveryHeaderSize)
	for _, m := range written(t, "nvme-discover") {
		switch {
		case len(m) == 20:
			copy(log, m)
		case len(m) == 3*capsule.DiscoveryEntrySize:
			check("discover", func(b *bytes.Buffer) error { return parseDiscovery(t, append(log, m...)).Text(b) })
		}
	}
	for _, m := range written(t, "nvme-connect") {
		if len(m) != capsule.IdentifySize || found["id-ctrl"] && found["id-ns"] {
			continue
		}
		if c, _ := capsule.DecodeIdentifyController(m); strings.HasPrefix(string(c.SN[:]), "SERIAL0001") {
			check("id-ctrl", func(b *bytes.Buffer) error { return Output{W: b}.IdentifyController(m, false) })
		} else if n, _ := capsule.DecodeIdentifyNamespace(m); n.NSZE == 0x200000 {
			check("id-ns", func(b *bytes.Buffer) error { return Output{W: b}.IdentifyNamespace(1, m, false) })
		}
	}
	for _, name := range []string{"discover", "id-ctrl", "id-ns"} {
		if !found[name] {
			t.Errorf("no data for %s in the captures", name)
		}
	}
}
