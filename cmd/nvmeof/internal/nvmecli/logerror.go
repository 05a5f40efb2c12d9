package nvmecli

import (
	"fmt"
	"strings"

	"github.com/nvmeof-go/nvmeof/capsule"
)

// Errors prints entries as `nvme error-log` does.
func (o Output) Errors(entries []capsule.ErrorLogEntry) error {
	if o.JSON {
		return o.json(object{{"errors", errorObjects(entries)}})
	}
	return o.text(func(b *strings.Builder) {
		fmt.Fprintf(b, "Error Log Entries for device:%s entries:%d\n.................\n", o.Device, len(entries))
		for i := range entries {
			fmt.Fprintf(b, " Entry[%2d]\n.................\n", i)
			for _, f := range errorFields(&entries[i]) {
				fmt.Fprintf(b, "%s: %s\n", f.name, f.text)
			}
			b.WriteString(".................\n")
		}
	})
}

func errorFields(e *capsule.ErrorLogEntry) []field {
	phase := uint8(0)
	if e.Phase {
		phase = 1
	}
	return []field{
		text("error_count\t", fmt.Sprint(e.Count)), text("sqid\t\t", fmt.Sprint(e.SQID)), text("cmdid\t\t", hexed(e.CID)),
		text("status_field\t", fmt.Sprintf("%s (%s)", hexed(e.Status), StatusText(e.Status))),
		text("phase_tag\t", hexed(phase)), text("parm_err_loc\t", hexed(e.Parameter)), text("lba\t\t", hexed(e.LBA)),
		text("nsid\t\t", hexed(e.NSID)), text("vs\t\t", fmt.Sprint(e.VSI)),
		text("trtype\t\t", fmt.Sprintf("%s (%s)", hexed(e.TRTYPE), errorTransport(e.TRTYPE))),
		text("csi\t\t", fmt.Sprint(uint8(e.CSI))), text("opcode\t\t", hexed(e.Opcode)), text("cs\t\t", hexed(e.Specific)),
		text("trtype_spec_info", hexed(e.TTSI)), text("log_page_version", fmt.Sprint(e.Version)),
	}
}

func errorTransport(t capsule.TransportType) string {
	switch t {
	case 0:
		return "The transport type is not indicated or the error is not transport related"
	case capsule.TransportRDMA:
		return "RDMA Transport error"
	case capsule.TransportFC:
		return "Fibre Channel Transport error"
	case capsule.TransportTCP:
		return "TCP Transport error"
	case capsule.TransportLoop:
		return "Intra-host Transport error"
	}
	return "Reserved"
}

func errorObjects(entries []capsule.ErrorLogEntry) []object {
	list := []object{}
	for i := range entries {
		e := &entries[i]
		phase := uint8(0)
		if e.Phase {
			phase = 1
		}
		list = append(list, object{
			{"error_count", integer(e.Count)}, {"sqid", integer(e.SQID)}, {"cmdid", integer(e.CID)},
			{"status_field", integer(e.Status)}, {"phase_tag", integer(phase)}, {"parm_error_location", integer(e.Parameter)},
			{"lba", integer(e.LBA)}, {"nsid", integer(e.NSID)}, {"vs", integer(e.VSI)}, {"trtype", integer(e.TRTYPE)},
			{"cs", integer(e.Specific)}, {"trtype_spec_info", integer(e.TTSI)},
		})
	}
	return list
}
