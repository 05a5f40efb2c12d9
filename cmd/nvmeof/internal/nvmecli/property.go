package nvmecli

import (
	_ "embed"
	"fmt"
	"strings"

	"github.com/nvmeof-go/nvmeof/capsule"
)

var propertyNames = map[capsule.PropertyOffset]string{
	capsule.PropertyCAP: "Controller Capabilities", capsule.PropertyVS: "Version", capsule.PropertyCC: "Controller Configuration",
	capsule.PropertyCSTS: "Controller Status", capsule.PropertyNSSR: "NVM Subsystem Reset",
	capsule.PropertyNSSD: "NVM Subsystem Shutdown", capsule.PropertyCRTO: "Controller Ready Timeouts",
}

// PropertyName returns nvme-cli's name of a property.
func PropertyName(off capsule.PropertyOffset) string {
	if name, ok := propertyNames[off]; ok {
		return name
	}
	return "Unknown"
}

// NoProperty is the value that nvme-cli shows for NSSR if the controller does not have it.
const NoProperty = ^uint64(0)

// Property prints a property as `nvme get-property` does.
func (o Output) Property(off capsule.PropertyOffset, v uint64) error {
	decodedProperty := spellProperty(off, v)
	if o.Human && decodedProperty != nil {
		return o.either(func(b *strings.Builder) {
			fmt.Fprintf(b, "%s: %s\n", PropertyName(off), hexed(v))
			decodedProperty.text(b)
		}, func() any { return decodedProperty.json(fmt.Sprintf("%x", v)) })
	}
	offset := padded(uint32(off), 4)
	return o.either(func(b *strings.Builder) {
		fmt.Fprintf(b, "property: %s (%s), value: %s\n", offset, PropertyName(off), hexed(v))
	}, func() any {
		if off.Size() == 4 {
			v = uint64(uint32(v))
		}
		return object{{"property", fmt.Sprintf("0x%02x", uint32(off))}, {"name", PropertyName(off)}, {"value", fmt.Sprintf("%x", v)}}
	})
}

// PropertySet prints that a property was set, as `nvme set-property` does, but with the value that was set: nvme-cli
// 2.13 shows ones in its upper half.
func (o Output) PropertySet(off capsule.PropertyOffset, v uint64) error {
	return o.text(func(b *strings.Builder) {
		fmt.Fprintf(b, "set-property: %s (%s), value: %s\n", padded(uint32(off), 4), PropertyName(off), hexed(v))
	})
}

// Registers holds the properties that a controller over fabrics has. NSSR is nil if the controller does not have it.
type Registers struct {
	CAP  capsule.CAP
	VS   capsule.Version
	CC   capsule.CC
	CSTS capsule.CSTS
	NSSR *uint32
}

// Registers prints properties as `nvme show-regs` does.
func (o Output) Registers(r Registers) error {
	nssr := ^uint32(0)
	if r.NSSR != nil {
		nssr = *r.NSSR
	}
	shown := []struct {
		name string
		off  capsule.PropertyOffset
		v    uint64
	}{
		{"cap     ", capsule.PropertyCAP, uint64(r.CAP)}, {"version ", capsule.PropertyVS, uint64(r.VS)},
		{"cc      ", capsule.PropertyCC, uint64(r.CC)}, {"csts    ", capsule.PropertyCSTS, uint64(r.CSTS)},
		{"nssr    ", capsule.PropertyNSSR, uint64(nssr)},
	}
	return o.either(func(b *strings.Builder) {
		for _, p := range shown {
			fmt.Fprintf(b, "%s: %s\n", p.name, hexed(p.v))
			if o.Human {
				spellProperty(p.off, p.v).text(b)
			}
		}
	}, func() any {
		if !o.Human {
			return registersJSON(r)
		}
		return registersInWords(r, nssr)
	})
}

// absent is the output of `nvme show-regs -H -o json` for the registers that a controller over fabrics does not have:
// the decoding of all ones.
//
//go:embed absent.json
var absent string

// registersInWords returns the registers in the order of registersJSON, with the decoding of -H.
func registersInWords(r Registers, nssr uint32) (o object) {
	words := map[string]object{}
	for name, p := range map[string]struct {
		off capsule.PropertyOffset
		v   uint64
	}{
		"cap": {capsule.PropertyCAP, uint64(r.CAP)}, "vs": {capsule.PropertyVS, uint64(r.VS)}, "cc": {capsule.PropertyCC, uint64(r.CC)},
		"csts": {capsule.PropertyCSTS, uint64(r.CSTS)}, "nssr": {capsule.PropertyNSSR, uint64(nssr)},
	} {
		words[name] = spellProperty(p.off, p.v).json(fmt.Sprintf("%x", p.v))
	}
	for _, m := range registersJSON(r) {
		if w, ok := words[m.key]; ok {
			o = append(o, member{m.key, []object{w}})
			continue
		}
		_, rest, _ := strings.Cut(absent, "\n  \""+m.key+"\":")
		text, _, _ := strings.Cut(rest, "\n  ]")
		o = append(o, member{m.key, verbatim(text + "\n  ]")})
	}
	return o
}

// registersJSON returns the registers. Those that only memory mapped controllers have are all ones, which is what
// nvme-cli reads from a controller over fabrics.
func registersJSON(r Registers) object {
	const ones32, ones64 = number("-1"), number("18446744073709551615")
	nssr := ones32
	if r.NSSR != nil {
		nssr = integer(int64(int32(*r.NSSR)))
	}
	o := object{{"cap", integer(uint64(r.CAP))}, {"vs", integer(int64(int32(r.VS)))}, {"intms", ones32}, {"intmc", ones32},
		{"cc", integer(int64(int32(r.CC)))}, {"csts", integer(int64(int32(r.CSTS)))}, {"nssr", nssr}, {"aqa", ones32}, {"asq", ones64}, {"acq", ones64}}
	for _, name := range []string{"cmbloc", "cmbsz", "bpinfo", "bprsel"} {
		o = append(o, member{name, ones32})
	}
	o = append(o, object{{"bpmbl", ones64}, {"cmbmsc", ones64}}...)
	for _, name := range []string{"cmbsts", "cmbebs", "cmbswtp", "nssd", "crto", "pmrcap", "pmrctl", "pmrsts", "pmrebs", "pmrswtp"} {
		o = append(o, member{name, ones32})
	}
	return append(o, object{{"pmrmscl", number("4294967295")}, {"pmrmscu", number("4294967295")}}...)
}
