package nvmecli

import (
	"encoding/hex"
	"fmt"
	"strings"

	"github.com/google/uuid"

	"github.com/nvmeof-go/nvmeof/capsule"
)

// NamespaceList prints a list as `nvme list-ns` does.
func (o Output) NamespaceList(ids []capsule.NSID) error {
	return o.either(func(b *strings.Builder) {
		b.WriteString("NVME Namespace List:\n")
		for i, id := range ids {
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
		if t.Length() == len(id) { // others are for programs of the future
			f := descriptor(t, id)
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

// NVMNamespace prints the data of Identify CNS 05h as `nvme nvm-id-ns` does; its
// formats are those of the namespace.
func (o Output) NVMNamespace(nsid capsule.NSID, ns *capsule.IdentifyNamespace, n *capsule.IdentifyNVMNamespace) error {
	formats := min(int(ns.NLBAF)+int(ns.NULBAF)+1, len(n.ELBAF))
	head := []field{hexField("lbstm", n.LBSTM), hexField("pic", n.PIC), hexField("pifa", n.PIFA)}
	tail := []field{hexField("nprg", n.NPRG), hexField("npra", n.NPRA), hexField("nors", n.NORS),
		hexField("npdal", n.NPDAL), hexField("lbapss", n.LBAPSS), hexField("tlbaag", n.TLBAAG)}
	return o.either(func(b *strings.Builder) {
		fmt.Fprintf(b, "NVMe NVM Identify Namespace %d:\n", nsid)
		writeFields(b, 6, head)
		for i, e := range n.ELBAF[:formats] {
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

// NVMController prints the data of Identify CNS 06h as `nvme nvm-id-ctrl` does.
func (o Output) NVMController(c *capsule.IdentifyNVMController) error {
	version := dec("ver", c.VER)
	version.text = fmt.Sprintf("0x%x", uint32(c.VER))
	fields := []field{dec("vsl", c.VSL), dec("wzsl", c.WZSL), dec("wusl", c.WUSL), dec("dmrl", c.DMRL), dec("dmrsl", c.DMRSL), dec("dmsl", c.DMSL),
		dec("kpiocap", c.KPIOCAP), dec("wzdsl", c.WZDSL), dec("aocs", c.AOCS), version, dec("lbamqf", c.LBAMQF)}
	return o.either(func(b *strings.Builder) {
		b.WriteString("NVMe Identify Controller NVM:\n")
		writeFields(b, 7, fields)
	}, func() any { return members(fields) })
}
