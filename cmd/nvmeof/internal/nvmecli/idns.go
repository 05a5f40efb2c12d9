package nvmecli

import (
	"bytes"
	"encoding/hex"
	"fmt"
	"strings"

	"github.com/nvmeof-go/nvmeof/capsule"
)

// Offset of the vendor's bytes in Identify Namespace data.
const namespaceVendor = 384

// IdentifyNamespace prints Identify Namespace data (CNS 00h) as `nvme id-ns` does, optionally with the vendor's bytes.
func (o Output) IdentifyNamespace(id capsule.NSID, data []byte, vendor bool) error {
	n, err := capsule.DecodeIdentifyNamespace(data)
	if err != nil {
		return err
	}
	if o.JSON {
		return o.json(namespaceJSON(&n, data))
	}
	return o.text(func(b *strings.Builder) {
		fmt.Fprintf(b, "NVME Identify Namespace %d:\n", id)
		if fields := namespaceFields(&n); o.Human {
			for i, what := range []string{"Total", "Maximum", "Current"} {
				fields[i].text += "\t" + what + " size in logical blocks"
			}
			writeSpelled(b, 8, fields, bySameName)
		} else {
			writeFields(b, 8, fields)
		}
		for i := range min(int(n.NLBAF)+int(n.NULBAF)+1, len(n.LBAF)) {
			o.format(b, i, n.LBAF[i], i == formatIndex(&n))
		}
		if vendor {
			vendorText(b, data[namespaceVendor:capsule.IdentifySize])
		}
	})
}

// format prints the line of one of the namespace's formats.
func (o Output) format(b *strings.Builder, i int, f capsule.LBAFormat, used bool) {
	inUse := choose(used, "(in use)", "")
	if o.Human {
		performance := at([]string{"Best", "Better", "Good", "Degraded"}, f.RP, "Best")
		fmt.Fprintf(b, "LBA Format %2d : Metadata Size: %-3d bytes - Data Size: %-2d bytes - Relative Performance: %s %s %s\n",
			i, f.MS, int32(1)<<f.LBADS, hexed(f.RP), performance, inUse)
		return
	}
	fmt.Fprintf(b, "lbaf %2d : ms:%-3d lbads:%-2d rp:%s %s\n", i, f.MS, f.LBADS, hexed(f.RP), inUse)
}

func namespaceJSON(n *capsule.IdentifyNamespace, data []byte) object {
	lbafs := []object{}
	for i := range min(int(n.NLBAF)+1, len(n.LBAF)) {
		f := n.LBAF[i]
		lbafs = append(lbafs, object{{"ms", integer(f.MS)}, {"ds", integer(f.LBADS)}, {"rp", integer(f.RP)}})
	}
	return append(members(namespaceFields(n)), member{"lbafs", lbafs}, member{"vs", dump(data[namespaceVendor:capsule.IdentifySize])})
}

func formatIndex(n *capsule.IdentifyNamespace) int { return int(n.FLBAS&0xf | n.FLBAS>>1&0x30) }

func namespaceFields(n *capsule.IdentifyNamespace) []field {
	fields := []field{
		hexField("nsze", n.NSZE), hexField("ncap", n.NCAP), hexField("nuse", n.NUSE),
		hexField("nsfeat", n.NSFEAT), dec("nlbaf", n.NLBAF), hexField("flbas", n.FLBAS),
		hexField("mc", n.MC), hexField("dpc", n.DPC), hexField("dps", n.DPS),
		hexField("nmic", n.NMIC), hexField("rescap", n.RESCAP), hexField("fpi", n.FPI), dec("dlfeat", n.DLFEAT),
		dec("nawun", n.NAWUN), dec("nawupf", n.NAWUPF), dec("nacwu", n.NACWU),
		dec("nabsn", n.NABSN), dec("nabo", n.NABO), dec("nabspf", n.NABSPF), dec("noiob", n.NOIOB),
		wide("nvmcap", n.NVMCAP),
	}
	if n.NSFEAT&capsule.NSFEATOptimal != 0 {
		fields = append(fields, dec("npwg", n.NPWG), dec("npwa", n.NPWA), dec("npdg", n.NPDG), dec("npda", n.NPDA), dec("nows", n.NOWS))
	}
	nsattr := dec("nsattr", n.NSATTR)
	nsattr.name = "nsattr\t" // a tab in place of the padding
	return append(fields,
		dec("mssrl", n.MSSRL), dec("mcl", n.MCL), dec("msrc", n.MSRC), dec("kpios", n.KPIOS),
		dec("nulbaf", n.NULBAF), dec("kpiodaag", n.KPIODAAG), dec("anagrpid", n.ANAGRPID), nsattr,
		dec("nvmsetid", n.NVMSETID), dec("endgid", n.ENDGID),
		text("nguid", hex.EncodeToString(n.NGUID[:])), text("eui64", hex.EncodeToString(n.EUI64[:])))
}

// dump returns vendor text in rows of 16 bytes, up to its NUL.
func dump(b []byte) []string {
	if i := bytes.IndexByte(b, 0); i >= 0 {
		b = b[:i]
	}
	rows := []string{}
	for ; len(b) > 0; b = b[min(16, len(b)):] {
		row := []byte(string(b[:min(16, len(b))]))
		for i, c := range row {
			if c < '!' || c > '~' {
				row[i] = '.'
			}
		}
		rows = append(rows, string(row))
	}
	return rows
}
