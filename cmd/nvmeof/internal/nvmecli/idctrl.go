package nvmecli

import (
	"encoding/binary"
	"fmt"
	"io"
	"strings"

	"github.com/google/uuid"

	"github.com/nvmeof-go/nvmeof/capsule"
)

// Offset of the vendor's bytes in Identify Controller data.
const controllerVendor = 3072

// IdentifyController prints Identify Controller data (CNS 01h) as `nvme id-ctrl` does, optionally with the vendor's
// bytes.
func (o Output) IdentifyController(data []byte, vendor bool) error {
	c, err := capsule.DecodeIdentifyController(data)
	if err != nil {
		return err
	}
	if o.JSON {
		return o.json(controllerJSON(&c))
	}
	return o.text(func(b *strings.Builder) {
		b.WriteString("NVME Identify Controller:\n")
		if fields := controllerFields(&c); o.Human {
			writeSpelled(b, 10, fields, controllerWords)
		} else {
			writeFields(b, 10, fields)
		}
		for i := range min(int(c.NPSS)+1, len(c.PSD)) {
			powerText(b, i, c.PSD[i][:])
		}
		if vendor {
			vendorText(b, data[controllerVendor:capsule.IdentifySize])
		}
	})
}

// controllerWords returns the section of words.txt for a field: SGLS has another one if SGLs are not supported.
func controllerWords(f field) string {
	if f.name == "sgls" && f.bits&3 == 0 {
		return "sgls none"
	}
	return f.name
}

func vendorText(b *strings.Builder, data []byte) {
	b.WriteString("vs[]:\n")
	hexDump(b, data)
}

func controllerJSON(c *capsule.IdentifyController) object {
	psds := []object{}
	for i := range min(int(c.NPSS)+1, len(c.PSD)) {
		psds = append(psds, powerJSON(c.PSD[i][:]))
	}
	return append(members(controllerFields(c)), member{"psds", psds})
}

func controllerFields(c *capsule.IdentifyController) []field {
	f := generalFields(c)
	f = append(f, adminFields(c)...)
	f = append(f, commandFields(c)...)
	return append(f, fabricsFields(c)...)
}

func generalFields(c *capsule.IdentifyController) []field {
	ieee := uint32(c.IEEE[2])<<16 | uint32(c.IEEE[1])<<8 | uint32(c.IEEE[0])
	return []field{
		hexField("vid", c.VID), hexField("ssvid", c.SSVID),
		ascii("sn", c.SN[:]), ascii("mn", c.MN[:]), ascii("fr", c.FR[:]),
		dec("rab", c.RAB),
		{"ieee", fmt.Sprintf("%06x", ieee), integer(ieee), 0},
		hexField("cmic", c.CMIC), dec("mdts", c.MDTS), hexField("cntlid", c.CNTLID), hexField("ver", c.VER),
		hexField("rtd3r", c.RTD3R), hexField("rtd3e", c.RTD3E),
		hexField("oaes", c.OAES), hexField("ctratt", c.CTRATT),
		hexField("rrls", c.RRLS), hexField("bpcap", c.BPCAP), hexField("nssl", c.NSSL), dec("plsi", c.PLSI),
		dec("cntrltype", c.CNTRLTYPE),
		text("fguid", uuid.UUID(c.FGUID).String()),
		dec("crdt1", c.CRDT1), dec("crdt2", c.CRDT2), dec("crdt3", c.CRDT3), dec("crcap", c.CRCAP),
		dec("nvmsr", c.NVMSR), dec("vwci", c.VWCI), dec("mec", c.MEC),
	}
}

func adminFields(c *capsule.IdentifyController) []field {
	return []field{
		hexField("oacs", c.OACS), dec("acl", c.ACL), dec("aerl", c.AERL), hexField("frmw", c.FRMW), hexField("lpa", c.LPA),
		dec("elpe", c.ELPE), dec("npss", c.NPSS), hexField("avscc", c.AVSCC), hexField("apsta", c.APSTA),
		dec("wctemp", c.WCTEMP), dec("cctemp", c.CCTEMP), dec("mtfa", c.MTFA),
		dec("hmpre", c.HMPRE), dec("hmmin", c.HMMIN),
		wide("tnvmcap", c.TNVMCAP), wide("unvmcap", c.UNVMCAP),
		hexField("rpmbs", c.RPMBS), dec("edstt", c.EDSTT), dec("dsto", c.DSTO), dec("fwug", c.FWUG),
		dec("kas", c.KAS), hexField("hctma", c.HCTMA), dec("mntmt", c.MNTMT), dec("mxtmt", c.MXTMT),
		hexField("sanicap", c.SANICAP), dec("hmminds", c.HMMINDS), dec("hmmaxd", c.HMMAXD),
		dec("nsetidmax", c.NSETIDMAX), dec("endgidmax", c.ENDGIDMAX),
		dec("anatt", c.ANATT), dec("anacap", c.ANACAP), dec("anagrpmax", c.ANAGRPMAX), dec("nanagrpid", c.NANAGRPID),
		dec("pels", c.PELS), dec("domainid", c.DID), dec("kpioc", c.KPIOC), dec("mptfawr", c.MPTFAWR),
		wide("megcap", c.MEGCAP), hexField("tmpthha", c.TMPTHHA), dec("cqt", c.CQT),
	}
}

func commandFields(c *capsule.IdentifyController) []field {
	return []field{
		hexField("sqes", c.SQES), hexField("cqes", c.CQES), dec("maxcmd", c.MAXCMD), dec("nn", c.NN),
		hexField("oncs", c.ONCS), hexField("fuses", c.FUSES), hexField("fna", c.FNA), hexField("vwc", c.VWC),
		dec("awun", c.AWUN), dec("awupf", c.AWUPF), dec("icsvscc", c.ICSVSCC), dec("nwpc", c.NWPC),
		dec("acwu", c.ACWU), hexField("ocfs", c.OCFS), hexField("sgls", c.SGLS), dec("mnan", c.MNAN),
		wide("maxdna", c.MAXDNA), dec("maxcna", c.MAXCNA), dec("oaqd", c.OAQD),
		dec("rhiri", c.RHIRI), dec("hirt", c.HIRT), dec("cmmrtd", c.CMMRTD), dec("nmmrtd", c.NMMRTD),
		dec("minmrtg", c.MINMRTG), dec("maxmrtg", c.MAXMRTG), dec("trattr", c.TRATTR),
		dec("mcudmq", c.MCUDMQ), dec("mnsudmq", c.MNSUDMQ), dec("mcmr", c.MCMR), dec("nmcmr", c.NMCMR),
		dec("mcdqpc", c.MCDQPC),
	}
}

func fabricsFields(c *capsule.IdentifyController) []field {
	subnqn := ascii("subnqn", c.SubNQN[:])
	if subnqn.text == "" {
		subnqn.value = nil
	}
	return []field{
		subnqn,
		dec("ioccsz", c.IOCCSZ), dec("iorcsz", c.IORCSZ), dec("icdoff", c.ICDOFF),
		hexField("fcatt", c.FCATT), dec("msdbd", c.MSDBD), dec("ofcs", c.OFCS),
	}
}

// A power is a power state descriptor (NVMe base 2.0, figure 277).
type power struct {
	mp                         uint16
	mxps, nops                 bool
	enlat, exlat               uint32 // microseconds
	rrt, rrl, rwt, rwl         uint8
	idlp, actp                 uint16
	ips, apw, aps              uint8
	epfrt, epfrts, fqvt, fqvts uint8
	epfvt, epfvts              uint8
}

func decodePower(b []byte) power {
	return power{
		mp:   binary.LittleEndian.Uint16(b),
		mxps: b[3]&1 != 0, nops: b[3]&2 != 0,
		enlat: binary.LittleEndian.Uint32(b[4:]), exlat: binary.LittleEndian.Uint32(b[8:]),
		rrt: b[12], rrl: b[13], rwt: b[14], rwl: b[15],
		idlp: binary.LittleEndian.Uint16(b[16:]), ips: b[18] >> 6,
		actp: binary.LittleEndian.Uint16(b[20:]), apw: b[22] & 7, aps: b[22] >> 6,
		epfrt: b[23], fqvt: b[24], epfvt: b[25],
		epfrts: b[26] & 0xf, fqvts: b[26] >> 4, epfvts: b[27] & 0xf,
	}
}

func powerText(w io.Writer, i int, b []byte) {
	p := decodePower(b)
	scale, non := uint8(2), ""
	if p.mxps {
		scale = 1
	}
	if p.nops {
		non = "non-"
	}
	fmt.Fprintf(w, "ps   %4d : mp:%s %soperational enlat:%d exlat:%d rrt:%d rrl:%d\n", i, watts(p.mp, scale), non,
		int32(p.enlat), int32(p.exlat), p.rrt, p.rrl) // as nvme-cli prints them
	fmt.Fprintf(w, "            rwt:%d rwl:%d idle_power:%s active_power:%s\n", p.rwt, p.rwl, watts(p.idlp, p.ips), watts(p.actp, p.aps))
	fmt.Fprintf(w, "            active_power_workload:%s\n", workload(p.apw))
	fmt.Fprintf(w, "            emergency power fail recovery time: %s\n", scaledTime(p.epfrt, p.epfrts))
	fmt.Fprintf(w, "            forced quiescence vault time: %s\n", scaledTime(p.fqvt, p.fqvts))
	fmt.Fprintf(w, "            emergency power fail vault time: %s\n", scaledTime(p.epfvt, p.epfvts))
}

// watts formats a power in the unit that a scale selects.
func watts(v uint16, scale uint8) string {
	switch scale {
	case 0:
		return "-"
	case 1:
		return fmt.Sprintf("%d.%04dW", v/10000, v%10000)
	case 2:
		return fmt.Sprintf("%d.%02dW", v/100, v%100)
	}
	return "reserved"
}

func workload(v uint8) string {
	switch v {
	case 0:
		return "-"
	case 1:
		return "1MiB 32 RW, 30s idle"
	case 2:
		return "80K 128KiB SW"
	}
	return "reserved"
}

var timeScales = []string{"1 microsecond", "10 microseconds", "100 microseconds", "1 millisecond", "10 milliseconds",
	"100 milliseconds", "1 second", "10 seconds", "100 seconds", "1,000 seconds", "10,000 seconds", "100,000 seconds",
	"1,000,000 seconds"}

func scaledTime(v, scale uint8) string {
	switch {
	case v == 0:
		return "-"
	case v > 99 || int(scale) >= len(timeScales):
		return "reserved"
	}
	return fmt.Sprintf("%d (unit: %s)", v, timeScales[scale])
}

func powerJSON(b []byte) object {
	p := decodePower(b)
	flag := map[bool]number{false: "0", true: "1"}
	return object{
		{"max_power", integer(p.mp)}, {"max_power_scale", flag[p.mxps]}, {"non-operational_state", flag[p.nops]},
		{"entry_lat", integer(p.enlat)}, {"exit_lat", integer(p.exlat)},
		{"read_tput", integer(p.rrt)}, {"read_lat", integer(p.rrl)}, {"write_tput", integer(p.rwt)}, {"write_lat", integer(p.rwl)},
		{"idle_power", integer(p.idlp)}, {"idle_scale", integer(p.ips)},
		{"active_power", integer(p.actp)}, {"active_power_work", integer(p.apw)}, {"active_scale", integer(p.aps)},
		{"emerg_power_fail_recover_time", integer(p.epfrt)}, {"emerg_power_fail_recover_scale", integer(p.epfrts)},
		{"force_quiesce_vault_time", integer(p.fqvt)}, {"force_quiesce_vault_scale", integer(p.fqvts)},
		{"emerg_power_fail_vault_time", integer(p.epfvt)}, {"emerg_power_fail_vault_scale", integer(p.epfvts)},
	}
}
