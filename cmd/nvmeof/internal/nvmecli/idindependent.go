package nvmecli

import (
	"fmt"
	"strings"

	"github.com/nvmeof-go/nvmeof/capsule"
)

// A bitLine is one line of a register spelled out by -H: the bits from high to low,
// and what they mean.
type bitLine struct {
	high, low int
	text      string
}

func (l bitLine) value(v uint8) uint8 { return v >> l.low & (1<<(l.high-l.low+1) - 1) }

// one is a line of a single bit.
func one(bit int, v uint8, yes, no string) bitLine {
	return bitLine{bit, bit, choose(v>>bit&1 != 0, yes, no)}
}

// reserved is a line that stands only where the bits are set.
func reserved(high, low int, v uint8) []bitLine {
	if l := (bitLine{high, low, "Reserved"}); l.value(v) != 0 {
		return []bitLine{l}
	}
	return nil
}

// IndependentNamespace prints the data of Identify CNS 08h as `nvme cmdset-ind-id-ns`
// does.
func (o Output) IndependentNamespace(nsid capsule.NSID, n *capsule.IdentifyNamespaceIndependent) error {
	nsattr := dec("nsattr\t", n.NSATTR)
	fields := []field{hexField("nsfeat", n.NSFEAT), hexField("nmic", n.NMIC), hexField("rescap", n.RESCAP), hexField("fpi", n.FPI),
		dec("anagrpid", n.ANAGRPID), nsattr, dec("nvmsetid", n.NVMSETID), dec("endgid", n.ENDGID), hexField("nstat", n.NSTAT),
		hexField("kpios", n.KPIOS), hexField("maxkt", n.MAXKT), hexField("rgrpid", n.RGRPID)}
	bits := map[string]func() (uint8, []bitLine){
		"nsfeat": func() (uint8, []bitLine) { return n.NSFEAT, nsfeatBits(n.NSFEAT) },
		"nmic":   func() (uint8, []bitLine) { return n.NMIC, nmicBits(n.NMIC) },
		"rescap": func() (uint8, []bitLine) { return n.RESCAP, rescapBits(n.RESCAP) },
		"fpi":    func() (uint8, []bitLine) { return n.FPI, fpiBits(n.FPI) },
		"nstat":  func() (uint8, []bitLine) { return n.NSTAT, nstatBits(n.NSTAT) },
		"kpios":  func() (uint8, []bitLine) { return n.KPIOS, kpiosBits(n.KPIOS) },
		nsattr.name: func() (uint8, []bitLine) {
			return n.NSATTR, append(reserved(7, 1, n.NSATTR), one(0, n.NSATTR, "Namespace Write Protected", "Namespace Not Write Protected"))
		},
	}
	return o.either(func(b *strings.Builder) {
		fmt.Fprintf(b, "NVME Identify Command Set Independent Namespace %d:\n", nsid)
		for _, f := range fields {
			writeFields(b, 8, []field{f})
			if spell := bits[f.name]; o.Human && spell != nil {
				writeBits(b, spell)
			}
		}
	}, func() any { return members(fields) })
}

func writeBits(b *strings.Builder, spell func() (uint8, []bitLine)) {
	v, lines := spell()
	for _, l := range lines {
		fmt.Fprintf(b, "  [%d:%d] : %s\t%s\n", l.high, l.low, hexed(l.value(v)), l.text)
	}
	b.WriteByte('\n')
}

func nsfeatBits(v uint8) []bitLine {
	lines := append(reserved(7, 6, v),
		one(5, v, "Volatile Write Cache is Present", "Volatile Write Cache is Not Present"),
		one(4, v, "Namespace store data on rotational media", "Namespace does not store data on rotational media"),
		one(3, v, "NGUID and EUI64 fields if non-zero, Never Reused", "NGUID and EUI64 fields if non-zero, Reused"))
	return append(lines, reserved(2, 0, v)...)
}

func nmicBits(v uint8) []bitLine {
	return append(reserved(7, 2, v),
		one(1, v, "Namespace is a Dispersed Namespace", "Namespace is Not a Dispersed Namespace"),
		one(0, v, "Namespace Multipath Capable", "Namespace Multipath Not Capable"))
}

func rescapBits(v uint8) []bitLine {
	lines := []bitLine{one(7, v, "Ignore Existing Key - Used as defined in revision 1.3 or later",
		"Ignore Existing Key - Used as defined in revision 1.2.1 or earlier")}
	for i, name := range []string{"Exclusive Access - All Registrants", "Write Exclusive - All Registrants", "Exclusive Access - Registrants Only",
		"Write Exclusive - Registrants Only", "Exclusive Access", "Write Exclusive", "Persist Through Power Loss"} {
		lines = append(lines, one(6-i, v, name+" Supported", name+" Not Supported"))
	}
	return lines
}

func fpiBits(v uint8) []bitLine {
	lines := []bitLine{one(7, v, "Format Progress Indicator Supported", "Format Progress Indicator Not Supported")}
	if v != 0 {
		lines = append(lines, bitLine{6, 0, fmt.Sprintf("Format Progress Indicator (Remaining %d%%)", v&0x7f)})
	}
	return lines
}

func nstatBits(v uint8) []bitLine {
	degraded := []string{"I/O performance degradation is not reported", "Reserved", "I/O performance is not currently degraded", "I/O performance is currently degraded"}
	return append(reserved(7, 3, v), bitLine{2, 1, degraded[v>>1&3]}, one(0, v, "Name space is ready", "Name space is not ready"))
}

func kpiosBits(v uint8) []bitLine {
	return append(reserved(7, 2, v),
		one(1, v, "Key Per I/O Capability Supported", "Key Per I/O Capability Not Supported"),
		one(0, v, "Key Per I/O Capability Enabled", "Key Per I/O Capability Disabled"))
}
