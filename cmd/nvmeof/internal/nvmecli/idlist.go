package nvmecli

import (
	"encoding/hex"
	"fmt"
	"slices"
	"strings"

	"github.com/google/uuid"

	"github.com/nvmeof-go/nvmeof/capsule"
)

// NamespaceList prints a list as `nvme list-ns` does.
func (o Output) NamespaceList(ids []capsule.NSID) error {
	return o.either(func(b *strings.Builder) {
		b.WriteString("NVME Namespace List:\n")
		for i, id := range ids {
			if o.Human {
				fmt.Fprintf(b, "Identifier %4d: NSID 0x%x\n", i, uint32(id))
				continue
			}
			fmt.Fprintf(b, "[%4d]:0x%x\n", i, uint32(id))
		}
	}, func() any { return object{{"nsid_list", nsids(ids)}} })
}

// ControllerList prints a list as `nvme list-ctrl` does.
func (o Output) ControllerList(ids []capsule.ControllerID) error {
	return o.either(func(b *strings.Builder) {
		fmt.Fprintf(b, "num of ctrls present: %d\n", len(ids))
		for i, id := range ids {
			fmt.Fprintf(b, "[%4d]:0x%x\n", i, uint16(id))
		}
	}, func() any {
		list := []object{}
		for _, id := range ids {
			list = append(list, object{{"ctrl_id", integer(id)}})
		}
		return object{{"num_ctrl", integer(len(ids))}, {"ctrl_list", list}}
	})
}

// Descriptors prints the data of Identify CNS 03h as `nvme ns-descs` does.
func (o Output) Descriptors(nsid capsule.NSID, data []byte) error {
	var lines []field
	list := []object{}
	for off := 0; ; {
		t, id, rest, err := capsule.NextDescriptor(data[off:])
		if err != nil {
			return fmt.Errorf("namespace descriptors: %w", err)
		}
		if t == 0 {
			break
		}
		if t.Length() == len(id) { // other lengths are reserved for future specifications
			f := descriptor(t, id)
			if o.Human {
				lines = append(lines, dec("loc", uint32(off)), dec("nidt", t), dec("nidl", uint32(len(id))), text("type", f.name))
			}
			lines = append(lines, f)
			list = append(list, object{{"loc", integer(off)}, {"nidt", integer(t)}, {"nidl", integer(len(id))}, {"Type", f.name}, {f.name, f.value}})
		}
		off = len(data) - len(rest)
	}
	return o.either(func(b *strings.Builder) {
		fmt.Fprintf(b, "NVME Namespace Identification Descriptors NS %d:\n", nsid)
		writeFields(b, 8, lines)
	}, func() any { return object{{"ns-descs", list}} })
}

func descriptor(t capsule.DescriptorType, id []byte) field {
	switch t {
	case capsule.DescriptorEUI64:
		return text("eui64", hex.EncodeToString(id))
	case capsule.DescriptorNGUID:
		return text("nguid", hex.EncodeToString(id))
	case capsule.DescriptorUUID:
		return text("uuid", uuid.UUID(id).String())
	}
	return text("csi", hexed(id[0]))
}

// NVMNamespace prints the data of Identify CNS 05h as `nvme nvm-id-ns` does. The formats come from the Identify
// Namespace data.
func (o Output) NVMNamespace(nsid capsule.NSID, ns *capsule.IdentifyNamespace, n *capsule.IdentifyNVMNamespace) error {
	formats := min(int(ns.NLBAF)+int(ns.NULBAF)+1, len(n.ELBAF))
	head := []field{hexField("lbstm", n.LBSTM), hexField("pic", n.PIC), hexField("pifa", n.PIFA)}
	tail := []field{hexField("nprg", n.NPRG), hexField("npra", n.NPRA), hexField("nors", n.NORS),
		hexField("npdal", n.NPDAL), hexField("lbapss", n.LBAPSS), hexField("tlbaag", n.TLBAAG)}
	return o.either(func(b *strings.Builder) {
		fmt.Fprintf(b, "NVMe NVM Identify Namespace %d:\n", nsid)
		if o.Human {
			writeSpelled(b, 6, head, bySameName)
		} else {
			writeFields(b, 6, head)
		}
		for i, e := range n.ELBAF[:formats] {
			if o.Human {
				extendedFormat(b, i, e, i == formatIndex(ns))
				continue
			}
			fmt.Fprintf(b, "elbaf %2d : qpif:%d pif:%d sts:%d  %s\n", i, e>>9&0xf, e>>7&3, e&0x7f, choose(i == formatIndex(ns), "(in use)", ""))
		}
		writeFields(b, 6, tail)
	}, func() any {
		list := []object{}
		for _, e := range n.ELBAF[:formats] {
			list = append(list, object{{"sts", integer(e & 0x7f)}, {"pif", integer(e >> 7 & 3)}, {"qpif", integer(e >> 9 & 0xf)}})
		}
		return append(append(members(head), member{"elbafs", list}), members(tail)...)
	})
}

// extendedFormat prints a line of `nvme nvm-id-ns -v`.
func extendedFormat(b *strings.Builder, i int, e uint32, used bool) {
	guards := []string{"16b Guard", "32b Guard", "64b Guard"}
	qualified, pif := e>>9&0xf, e>>7&3
	fmt.Fprintf(b, "Extended LBA Format %2d : Qualified Protection Information Format: %s(%d) - Protection Information Format: %s(%d) - Storage Tag Size (MSB): %-2d %s\n",
		i, at(guards, qualified, "Reserved"), qualified, at(guards, pif, "Reserved"), pif, e&0x7f, choose(used, "(in use)", ""))
}

// NVMController prints the data of Identify CNS 06h as `nvme nvm-id-ctrl` does.
func (o Output) NVMController(c *capsule.IdentifyNVMController) error {
	version := dec("ver", c.VER)
	version.text = fmt.Sprintf("0x%x", uint32(c.VER))
	fields := []field{dec("vsl", c.VSL), dec("wzsl", c.WZSL), dec("wusl", c.WUSL), dec("dmrl", c.DMRL), dec("dmrsl", c.DMRSL), dec("dmsl", c.DMSL),
		dec("kpiocap", c.KPIOCAP), dec("wzdsl", c.WZDSL), dec("aocs", c.AOCS), version, dec("lbamqf", c.LBAMQF)}
	return o.either(func(b *strings.Builder) {
		b.WriteString("NVMe Identify Controller NVM:\n")
		for _, f := range fields {
			writeFields(b, 7, []field{f})
			if o.Human {
				spellNVMController(b, f)
			}
		}
	}, func() any {
		if o.Human {
			fields = slices.Insert(fields, slices.IndexFunc(fields, func(f field) bool { return f.name == "ver" }), spellAOCS(c.AOCS)...)
		}
		return members(fields)
	})
}

// spellNVMController prints what -v adds to a field.
func spellNVMController(b *strings.Builder, f field) {
	switch f.name {
	case "ver":
		fmt.Fprintf(b, "  NVM command set specification: %d.%d.%d\n\n", f.bits>>16, f.bits>>8&0xff, f.bits&0xff)
	case "lbamqf":
		what := "Reserved"
		switch {
		case f.bits == 0:
			what = "LBA Migration Queue Entry Type 0"
		case f.bits >= vendorQueueEntry:
			what = "Vendor Specific"
		}
		fmt.Fprintf(b, "  0x%x: %s\n\n", f.bits, what)
	default:
		spell(b, f.name, f)
	}
}

// vendorQueueEntry is the first vendor specific format of migration queue entries.
const vendorQueueEntry = 0xc0

// spellAOCS returns the members that -v adds to the JSON.
func spellAOCS(v uint16) (fields []field) {
	if rest := v >> 1; rest != 0 {
		fields = append(fields, dec("[15:1]: Reserved", rest))
	}
	return append(fields, dec("[0:0]: Reporting Allocated LBA Supported", v&1))
}
