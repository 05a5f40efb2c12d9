package nvmecli

import (
	"fmt"
	"strings"

	"github.com/nvmeof-go/nvmeof/capsule"
)

// featureNames holds nvme-cli's names.
var featureNames = map[capsule.FID]string{
	0x01: "Arbitration", 0x02: "Power Management", 0x03: "LBA Range Type", 0x04: "Temperature Threshold",
	0x05: "Error Recovery", 0x06: "Volatile Write Cache", 0x07: "Number of Queues", 0x08: "Interrupt Coalescing",
	0x09: "Interrupt Vector Configuration", 0x0a: "Write Atomicity Normal", 0x0b: "Async Event Configuration",
	0x0c: "Autonomous Power State Transition", 0x0d: "Host Memory Buffer", 0x0e: "Timestamp", 0x0f: "Keep Alive Timer",
	0x10: "Host Controlled Thermal Management", 0x11: "Non-Operational Power State Config", 0x12: "Read Recovery Level",
	0x13: "Predictable Latency Mode Config", 0x14: "Predictable Latency Mode Window", 0x15: "LBA Status Interval",
	0x16: "Host Behavior", 0x17: "Sanitize", 0x18: "Endurance Event Group Configuration", 0x19: "I/O Command Set Profile",
	0x1a: "Spinup Control", 0x1b: "Power Loss Signaling Config", 0x1c: "Performance Characteristics",
	0x1d: "Flexible Direct Placement", 0x1e: "Flexible Direct Placement Events", 0x1f: "Namespace Admin Label",
	0x20: "Key Value Configuration", 0x21: "Controller Data Queue", 0x78: "Embedded Management Controller Address",
	0x79: "Host Management Agent Address", 0x7d: "Enhanced Controller Metadata", 0x7e: "Controller Metadata",
	0x7f: "Namespace Metadata", 0x80: "Software Progress", 0x81: "Host Identifier", 0x82: "Reservation Notification Mask",
	0x83: "Reservation Persistence", 0x84: "Namespace Write Protect", 0x85: "Boot Partition Write Protection Config",
}

// FeatureName returns nvme-cli's name of a feature.
func FeatureName(id capsule.FID) string {
	if name, ok := featureNames[id]; ok {
		return name
	}
	return "Unknown"
}

// A Feature is the result of Get Features.
type Feature struct {
	ID     capsule.FID
	Select capsule.FeatureSelect
	Value  uint32 // DW0
	Data   []byte // of features that return data
}

var selectNames = []string{"Current", "Default", "Saved", "Supported capabilities"}

// capabilities are the bits that SelectSupported returns.
var capabilities = []struct{ text, key string }{
	{"Feature is saveable", "saveable"}, {"Feature is per-namespace", "per-namespace"}, {"Feature is changeable", "changeable"},
}

// Feature prints a feature as `nvme get-feature` does.
func (o Output) Feature(f Feature) error {
	name, selected := FeatureName(f.ID), at(selectNames, f.Select, "Reserved")
	decoded, known := decodeFeature(f)
	return o.either(func(b *strings.Builder) {
		fmt.Fprintf(b, "get-feature:%s (%s), %s value:%s\n", feature8(f.ID), name, selected, value32(f.Value))
		switch {
		case f.Select == capsule.SelectSupported:
			for i, c := range capabilities {
				if f.Value>>i&1 != 0 {
					fmt.Fprintf(b, "  %s\n", c.text)
				}
			}
		case o.Human && known:
			for _, d := range decoded {
				if d.line != "" {
					fmt.Fprintf(b, "\t%s\n", d.line)
				}
			}
		case len(f.Data) > 0:
			hexDump(b, f.Data)
		}
	}, func() any { return featureJSON(f, name, selected, decoded) })
}

func featureJSON(f Feature, name, selected string, decoded []featureItem) object {
	o := object{{"feature: " + feature8(f.ID), []object{{{"name", name}, {selected, value32(f.Value)}}}}}
	if f.Select == capsule.SelectSupported {
		can := []string{}
		for i, c := range capabilities {
			if f.Value>>i&1 != 0 {
				can = append(can, c.key)
			}
		}
		return append(o, member{"Feature: " + feature8(f.ID) + ": select", can})
	}
	items := object{}
	for _, d := range decoded {
		if d.key != "" {
			items = append(items, member{d.key, d.value})
		}
	}
	return append(o, member{"Feature: " + feature8(f.ID), []object{items}})
}

// FeatureSet prints that a feature was set, as `nvme set-feature` does.
func (o Output) FeatureSet(id capsule.FID, value uint64, cdw12 uint32, save bool) error {
	return o.text(func(b *strings.Builder) {
		fmt.Fprintf(b, "set-feature:%s (%s), value:%s, cdw12:%s, save:%s\n", feature8(id), FeatureName(id),
			choose(value == 0, "00000000", padded(value, 10)), value32(cdw12), choose(save, "0x1", "0"))
	})
}

// FeatureTitle returns a feature's number and name.
func FeatureTitle(id capsule.FID) string {
	return fmt.Sprintf("%s (%s)", feature8(id), FeatureName(id))
}

// Features prints several features, in JSON as one object. The JSON also contains the status with which a further
// feature was rejected, or 0.
func (o Output) Features(list []Feature, refused capsule.Status) error {
	if !o.JSON {
		for _, f := range list {
			if err := o.Feature(f); err != nil {
				return err
			}
		}
		return nil
	}
	all := object{}
	for _, f := range list {
		decoded, _ := decodeFeature(f)
		all = append(all, featureJSON(f, FeatureName(f.ID), at(selectNames, f.Select, "Reserved"), decoded)...)
	}
	if !refused.OK() {
		all = append(all, featureStatus(refused)...)
	}
	return o.json(all)
}
