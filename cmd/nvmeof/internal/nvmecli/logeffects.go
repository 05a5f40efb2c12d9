package nvmecli

import (
	"fmt"
	"strings"

	"github.com/nvmeof-go/nvmeof/capsule"
)

// Effects is the log of one command set.
type Effects struct {
	CSI capsule.CSI
	Log capsule.EffectsLog
}

// Effects prints logs as `nvme effects-log` does.
func (o Output) Effects(sets []Effects) error {
	if o.JSON {
		list := []object{}
		for i := range sets {
			list = append(list, effectsJSON(&sets[i]))
		}
		return o.json(list)
	}
	return o.text(func(b *strings.Builder) {
		for i := range sets {
			o.effectsText(b, &sets[i])
		}
	})
}

// First opcodes of vendor specific commands.
const (
	vendorAdmin = 0xc0
	vendorIO    = 0x80
)

func (o Output) effectsText(b *strings.Builder, e *Effects) {
	fmt.Fprintf(b, "%s Command Set Log Page\n%s\n", at([]string{"NVM", "KV", "ZNS"}, e.CSI, "Unknown"), strings.Repeat("-", 80))
	section := func(title, prefix string, from, to int, entries *[256]capsule.Effects, name func(i int) string) {
		shown := false
		for i := from; i < to; i++ {
			if entries[i]&capsule.EffectSupported != 0 {
				b.WriteString(choose(shown, "", title+" Commands\n"))
				shown = true
				fmt.Fprintf(b, "%-8s [%-32s] %08x%s\n", fmt.Sprint(prefix, i), name(i), uint32(entries[i]), choose(o.Human, effectsWords(uint32(entries[i])), ""))
			}
		}
		b.WriteString(choose(shown, "\n", ""))
	}
	section("Admin", "ACS", 0, vendorAdmin, &e.Log.Admin, adminEffect)
	section("Vendor Specific Admin", "ACS", vendorAdmin, 256, &e.Log.Admin, adminEffect)
	section("I/O", "IOCS", 0, vendorIO, &e.Log.IO, ioEffect)
	section("Vendor Specific I/O", "IOCS", vendorIO, 256, &e.Log.IO, ioEffect)
}

func adminEffect(i int) string { return AdminName(capsule.AdminOpcode(i), "Unknown") }

func ioEffect(i int) string { return IOName(capsule.IOOpcode(i), "Unknown") }

// effectsWords describes the bits of an entry (NVMe base 2.0, figure 210).
func effectsWords(v uint32) string {
	var b strings.Builder
	flags(&b, v, []flagName{{"CSUPP", 0}, {"LBCC", 1}, {"NCC", 2}, {"NIC", 3}, {"CCC", 4}, {"USS", 19}})
	relaxations := []string{"No CSER defined", "No admin command for any namespace"}
	restrictions := []string{"No command restriction", "No other command for same namespace", "No other command for any namespace"}
	fmt.Fprintf(&b, "  %s\n  %s", at(relaxations, v>>14&3, "Reserved CSER"), at(restrictions, v>>16&7, "Reserved CSE"))
	return b.String()
}

// A flagName names a bit that is shown with + or -.
type flagName struct {
	name string
	bit  int
}

func flags(b *strings.Builder, v uint32, names []flagName) {
	for _, n := range names {
		fmt.Fprintf(b, "  %s%s", n.name, choose(v>>n.bit&1 != 0, "+", "-"))
	}
}

func effectsJSON(e *Effects) object {
	admin, io := object{}, object{}
	for i := range 256 {
		if v := e.Log.Admin[i]; v&capsule.EffectSupported != 0 {
			admin = append(admin, member{fmt.Sprintf("ACS_%d (%s)", i, adminEffect(i)), integer(v)})
		}
		if v := e.Log.IO[i]; v&capsule.EffectSupported != 0 {
			io = append(io, member{fmt.Sprintf("IOCS_%d (%s)", i, ioEffect(i)), integer(v)})
		}
	}
	return object{{"command_set_identifier", integer(e.CSI)}, {"admin_cmd_set", admin}, {"io_cmd_set", io}}
}

// scopes are the bits for the scope of a feature or an NVMe-MI command.
var scopes = []flagName{{"NAMESPACE SCOPE", 20}, {"CONTROLLER SCOPE", 21}, {"NVM SET SCOPE", 22},
	{"ENDURANCE GROUP SCOPE", 23}, {"DOMAIN SCOPE", 24}, {"NVM Subsystem SCOPE", 25}}

// FeatureEffects prints the log as `nvme fid-support-effects-log` does.
func (o Output) FeatureEffects(log *capsule.FIDEffectsLog) error {
	names := append([]flagName{{"FSUPP", 0}, {"UDCC", 1}, {"NCC", 2}, {"NIC", 3}, {"CCC", 4}, {"USS", 19}}, scopes...)
	return o.numberedEffects((*[256]capsule.FeatureEffects)(log), "FID Supports Effects Log", "FID", names, "fid_support", "fid_")
}

// MIEffects prints the log as `nvme mi-cmd-support-effects-log` does.
func (o Output) MIEffects(log *capsule.MIEffectsLog) error {
	names := append([]flagName{{"CSUPP", 0}, {"UDCC", 1}, {"NCC", 2}, {"NIC", 3}, {"CCC", 4}}, scopes...)
	return o.numberedEffects((*[256]capsule.FeatureEffects)(log), "MI Commands Support Effects Log", "MI CMD", names, "mi_command_support", "mi_cmd_")
}

func (o Output) numberedEffects(log *[256]capsule.FeatureEffects, title, what string, names []flagName, key, prefix string) error {
	list := []object{}
	return o.either(func(b *strings.Builder) {
		fmt.Fprintf(b, "%s for device: %s\nAdmin Command Set\n", title, o.Device)
		for i, v := range log {
			if v&capsule.FIDSupported != 0 {
				fmt.Fprintf(b, "%s %02x -> Support Effects Log: %08x", what, i, uint32(v))
				if o.Human {
					flags(b, uint32(v), names)
				}
				b.WriteByte('\n')
			}
		}
	}, func() any {
		for i, v := range log {
			if v&capsule.FIDSupported != 0 {
				list = append(list, object{{fmt.Sprint(prefix, i), integer(v)}})
			}
		}
		return object{{key, list}}
	})
}

// EffectsSets returns the command sets whose logs `nvme effects-log` shows: the one selected by csi if asked, or
// otherwise those in property CAP, among which nvme-cli also looks for the zoned one.
func EffectsSets(css uint8, asked bool, csi capsule.CSI) (sets []capsule.CSI) {
	if asked {
		return []capsule.CSI{csi}
	}
	if css&capsule.CSSMany != 0 {
		sets = append(sets, capsule.CSIZNS)
	}
	if css&capsule.CSSNVM != 0 {
		sets = append(sets, capsule.CSINVM)
	}
	return sets
}
