package nvmecli

import (
	"fmt"
	"io"
	"strings"
)

// A Device is a line of `nvme list`.
type Device struct {
	Node, Generic           string
	Serial, Model, Firmware string
	NSID                    uint32
	Used, Size              uint64 // bytes
	BlockSize, MetadataSize int    // bytes
	URI                     string // at which it can be used; empty: it cannot
}

const listRow = "%-21s %-21s %-20s %-40s %-10s %-26s %-16s %-8s\n"

// ListText prints devices as `nvme list` does, followed by the URIs of those that are published.
func ListText(w io.Writer, devices []Device) error {
	var b strings.Builder
	fmt.Fprintf(&b, listRow, "Node", "Generic", "SN", "Model", "Namespace", "Usage", "Format", "FW Rev")
	fmt.Fprintf(&b, listRow, rule(21), rule(21), rule(20), rule(40), rule(10), rule(26), rule(16), rule(8))
	for _, d := range devices {
		fmt.Fprintf(&b, listRow, d.Node, d.Generic, harmless(d.Serial), harmless(d.Model),
			fmt.Sprintf("0x%x", d.NSID), d.usage(), d.format(), harmless(d.Firmware))
	}
	published(&b, devices, "\n")
	_, err := io.WriteString(w, b.String())
	return err
}

// published prints the URIs of devices, preceded by gap unless that is empty. It returns "" if it printed gap.
func published(b *strings.Builder, devices []Device, gap string) string {
	for _, d := range devices {
		if d.URI != "" {
			fmt.Fprintf(b, "%s%s %s\n", gap, d.Node, d.URI)
			gap = ""
		}
	}
	return gap
}

func (d *Device) usage() string {
	used, usedUnit := scale(float64(d.Used), 1000)
	size, sizeUnit := scale(float64(d.Size), 1000)
	return fmt.Sprintf("%6.2f %2sB / %6.2f %2sB", used, usedUnit, size, sizeUnit)
}

func (d *Device) format() string {
	block, unit := scale(float64(d.BlockSize), 1024)
	return fmt.Sprintf("%3.0f %2sB + %2d B", block, unit, d.MetadataSize)
}

// sizes returns the last members of a device in both JSON lists.
func (d *Device) sizes() object {
	o := object{
		{"UsedBytes", integer(d.Used)}, {"MaximumLBA", integer(d.Size / uint64(max(1, d.BlockSize)))},
		{"PhysicalSize", integer(d.Size)}, {"SectorSize", integer(d.BlockSize)},
	}
	if d.URI != "" {
		o = append(o, member{"URI", d.URI})
	}
	return o
}

func rule(n int) string { return strings.Repeat("-", n) }

// scale divides v by powers of by until it is below by, and returns the prefix of the unit. by is 1000 (SI) or 1024.
func scale(v float64, by float64) (float64, string) {
	units := []string{"", "k", "M", "G", "T", "P", "E"}
	if by == 1024 {
		units = []string{"", "Ki", "Mi", "Gi", "Ti", "Pi", "Ei"}
	}
	i := 0
	for ; v >= by && i < len(units)-1; i++ {
		v /= by
	}
	return v, units[i]
}

// ListJSON prints devices as `nvme list -o json` does.
func ListJSON(w io.Writer, devices []Device) error {
	list := []object{}
	for _, d := range devices {
		device := object{
			{"NameSpace", integer(d.NSID)},
			{"DevicePath", d.Node}, {"GenericPath", d.Generic},
			{"Firmware", d.Firmware}, {"ModelNumber", d.Model}, {"SerialNumber", d.Serial},
		}
		list = append(list, append(device, d.sizes()...))
	}
	return writeJSON(w, object{{"Devices", list}})
}
