package nvmecli

import (
	"bytes"
	"testing"
	"unicode"

	"github.com/nvmeof-go/nvmeof/capsule"
)

func TestNumbers(t *testing.T) {
	for _, c := range []struct {
		f    field
		text string
		json number
	}{
		{hexField("x", uint16(0)), "0", "0"},
		{hexField("x", uint32(0x100005)), "0x100005", "1048581"},
		{dec("x", uint8(7)), "7", "7"},
		{wide("x", capsule.Uint128{Lo: 1 << 40}), "1099511627776", "1099511627776"},
		{wide("x", capsule.Uint128{Hi: 1}), "18446744073709551616", "18446744073709551616"},
	} {
		if c.f.text != c.text || c.f.value != c.json {
			t.Errorf("%+v, want %s and %s", c.f, c.text, c.json)
		}
	}
}

func TestStringsAreEscaped(t *testing.T) {
	var b bytes.Buffer
	if err := writeJSON(&b, object{{"k", "a\"\\/\n\x01é"}}); err != nil {
		t.Fatal(err)
	}
	if want := "{\n  \"k\":\"a\\\"\\\\/\\n\\u0001é\"\n}\n"; b.String() != want {
		t.Errorf("%q, want %q", b.String(), want)
	}
}

func TestPowerStates(t *testing.T) {
	b := make([]byte, 32)
	b[0], b[1] = 0x10, 0x27 // 10000
	b[3] = 3                // in units of 0.1 mW, not operational
	b[18] = 2 << 6
	b[16] = 150
	b[22] = 1<<6 | 2
	b[23], b[26] = 5, 6
	b[24] = 100
	var out bytes.Buffer
	powerText(&out, 1, b)
	want := `ps      1 : mp:1.0000W non-operational enlat:0 exlat:0 rrt:0 rrl:0
            rwt:0 rwl:0 idle_power:1.50W active_power:0.0000W
            active_power_workload:80K 128KiB SW
            emergency power fail recovery time: 5 (unit: 1 second)
            forced quiescence vault time: reserved
            emergency power fail vault time: -
`
	wantText(t, out.String(), want)
}

// TestHostileText checks that text from a controller does not reach a terminal as control sequences.
func TestHostileText(t *testing.T) {
	d := Discovery{Entries: make([]capsule.DiscoveryEntry, 1)}
	copy(d.Entries[0].TRADDR[:], "\x1b[2J1.2.3.4")
	var b bytes.Buffer
	if err := d.Text(&b); err != nil {
		t.Fatal(err)
	}
	if bytes.IndexByte(b.Bytes(), 0x1b) >= 0 {
		t.Error("an escape sequence of the controller is printed as it is")
	}
}

func TestScale(t *testing.T) {
	for _, c := range []struct {
		v, by float64
		want  float64
		unit  string
	}{
		{999, 1000, 999, ""}, {1000, 1000, 1, "k"}, {2e12, 1000, 2, "T"}, {512, 1024, 512, ""}, {4096, 1024, 4, "Ki"},
	} {
		if v, unit := scale(c.v, c.by); v != c.want || unit != c.unit {
			t.Errorf("scale(%v, %v) = %v %s, want %v %s", c.v, c.by, v, unit, c.want, c.unit)
		}
	}
}

// TestTextOfPeers is row 102 as well: text from a controller is escaped in all outputs.
func TestTextOfPeers(t *testing.T) {
	const evil = "a\x1b[2J\u202eb\u2066\u009bc\x9bd\U000e0001"
	var id capsule.IdentifyController
	for _, field := range [][]byte{id.SN[:], id.MN[:], id.FR[:], id.SubNQN[:]} {
		copy(field, evil)
	}
	data := make([]byte, capsule.IdentifySize)
	id.Encode(data)
	var e capsule.DiscoveryEntry
	for _, field := range [][]byte{e.SubNQN[:], e.TRADDR[:], e.TRSVCID[:]} {
		copy(field, evil)
	}
	log := Discovery{Entries: []capsule.DiscoveryEntry{e}}
	devices := []Device{{Node: "nvme0n1", Serial: evil, Model: evil, Firmware: evil}}
	subsystems := []Subsystem{{Name: "nvme-subsys0", NQN: evil, HostNQN: evil, Model: evil, Firmware: evil, Serial: evil, Paths: []Path{{Name: "nvme0"}}}}
	for name, print := range map[string]func(*bytes.Buffer) error{
		"id-ctrl":             func(b *bytes.Buffer) error { return Output{W: b}.IdentifyController(data, true) },
		"id-ctrl -o json":     func(b *bytes.Buffer) error { return Output{W: b, JSON: true}.IdentifyController(data, true) },
		"discover":            func(b *bytes.Buffer) error { return log.Text(b) },
		"discover -o json":    func(b *bytes.Buffer) error { return log.JSON(b) },
		"list":                func(b *bytes.Buffer) error { return ListText(b, devices) },
		"list -o json":        func(b *bytes.Buffer) error { return ListJSON(b, devices) },
		"list -v":             func(b *bytes.Buffer) error { return ListVerboseText(b, subsystems) },
		"list -v -o json":     func(b *bytes.Buffer) error { return ListVerboseJSON(b, subsystems) },
		"list-subsys":         func(b *bytes.Buffer) error { return SubsystemsText(b, subsystems, true) },
		"list-subsys -o json": func(b *bytes.Buffer) error { return SubsystemsJSON(b, subsystems, true) },
	} {
		var b bytes.Buffer
		if err := print(&b); err != nil {
			t.Errorf("%s: %v", name, err)
		}
		for _, r := range b.String() {
			if r != '\n' && (!unicode.IsPrint(r) || r == unicode.ReplacementChar) {
				t.Errorf("%s prints %q:\n%q", name, r, b.String())
				break
			}
		}
	}
}
