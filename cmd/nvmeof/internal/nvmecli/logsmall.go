package nvmecli

import (
	"encoding/binary"
	"fmt"
	"strings"

	"github.com/nvmeof-go/nvmeof/capsule"
)

// Firmware prints the log as `nvme fw-log` does.
func (o Output) Firmware(f *capsule.FirmwareLog) error {
	return o.either(func(b *strings.Builder) {
		fmt.Fprintf(b, "Firmware Log for device:%s\nafi  : %s\n", o.Device, hexed(f.AFI))
		for i, rev := range f.FRS {
			if rev[0] != 0 {
				fmt.Fprintf(b, "frs%d : %s (%s)\n", i+1, padded(binary.LittleEndian.Uint64(rev[:]), 16), printableBytes(rev[:]))
			}
		}
	}, func() any {
		slots := object{{"Active Firmware Slot (afi)", integer(f.AFI)}}
		for i, rev := range f.FRS {
			if rev[0] != 0 {
				slots = append(slots, member{fmt.Sprintf("Firmware Rev Slot %d", i+1),
					fmt.Sprintf("%d (%s)", binary.LittleEndian.Uint64(rev[:]), printableBytes(rev[:]))})
			}
		}
		return object{{o.Device, slots}}
	})
}

var logNames = map[capsule.LID]string{
	0x00: "Supported Log Pages", 0x01: "Error Information", 0x02: "SMART / Health Information",
	0x03: "Firmware Slot Information", 0x04: "Changed Namespace List", 0x05: "Commands Supported and Effects",
	0x06: "Device Self-test", 0x07: "Telemetry Host-Initiated", 0x08: "Telemetry Controller-Initiated",
	0x09: "Endurance Group Information", 0x0a: "Predictable Latency Per NVM Set",
	0x0b: "Predictable Latency Event Aggregate", 0x0c: "Asymmetric Namespace Access", 0x0d: "Persistent Event Log",
	0x0e: "LBA Status Information", 0x0f: "Endurance Group Event Aggregate", 0x10: "Media Unit Status",
	0x11: "Supported Capacity Configuration List", 0x12: "Feature Identifiers Supported and Effects",
	0x13: "NVMe-MI Commands Supported and Effects", 0x14: "Command and Feature Lockdown", 0x15: "Boot Partition",
	0x16: "Rotational Media Information", 0x17: "Dispersed Namespace Participating NVM Subsystems",
	0x18: "Management Address List", 0x19: "Physical Interface Receiver Eye Opening Measurement",
	0x1a: "Reachability Groups", 0x1b: "Reachability Associations", 0x1c: "Changed Allocated Namespace List",
	0x20: "FDP Configurations", 0x21: "Reclaim Unit Handle Usage", 0x22: "FDP Statistics", 0x23: "FDP Events",
	0x70: "Discovery", 0x71: "Host Discovery", 0x72: "AVE Discovery", 0x73: "Pull Model DDC Request",
	0x80: "Reservation Notification", 0x81: "Sanitize Status", 0xbf: "Changed Zone List",
}

// SupportedLogs prints the log as `nvme supported-log-pages` does.
func (o Output) SupportedLogs(s *capsule.SupportedLog) error {
	return o.either(func(b *strings.Builder) {
		fmt.Fprintf(b, "Support Log Pages Details for %s:\n", o.Device)
		for i, v := range s {
			if v&capsule.LogSupported != 0 {
				name, ok := logNames[capsule.LID(i)]
				fmt.Fprintf(b, "LID %s - %s\n", hexed(uint8(i)), choose(ok, name, "Unknown"))
				if o.Human {
					spellLogSupport(b, capsule.LID(i), v)
				}
			}
		}
	}, func() any {
		list := []object{}
		for i, v := range s {
			if v&capsule.LogSupported != 0 {
				list = append(list, object{{fmt.Sprintf("lid_0x%x ", i), integer(v)}})
			}
		}
		return object{{"supported_logs", list}}
	})
}

// logParameters names bits 16 and up of a page's entry.
var logParameters = map[capsule.LID][]string{
	0x07: {"Maximum Created Data Area"}, 0x0d: {"Establish Context and Read 512 Bytes of Header"},
	0x70: {"Extended Discovery Log Page Entry", "Port Local Entries Only", "All NVM Subsystem Entries"}, 0x71: {"All Host Entries"},
}

// spellLogSupport prints what -v adds to a page.
func spellLogSupport(b *strings.Builder, lid capsule.LID, v capsule.LogSupport) {
	say := func(what string, bit int) {
		fmt.Fprintf(b, "  %s is %s\n", what, choose(v>>bit&1 != 0, "supported", "not supported"))
	}
	say("LSUPP", 0)
	say("IOS", 1)
	for i, what := range logParameters[lid] {
		say(what, 16+i)
	}
}

// ChangedNamespaces prints the log as `nvme changed-ns-list-log` does. A list that was too long consists of the
// broadcast NSID alone.
func (o Output) ChangedNamespaces(ids []capsule.NSID) error {
	if len(ids) > 0 && ids[0] == capsule.NSIDBroadcast {
		return o.tooManyChanged()
	}
	return o.either(func(b *strings.Builder) {
		for i, id := range ids {
			fmt.Fprintf(b, "[%4d]:%s\n", i, hexed(id))
		}
		if len(ids) < capsule.NamespaceListEntries {
			b.WriteString("no ns changed\n")
		}
	}, func() any {
		list := object{}
		for i, id := range ids {
			list = append(list, member{fmt.Sprintf("[%4d]", i+1), hexed(id)})
		}
		return object{{"Changed Attached Namespace List Log", o.Device}, {o.Device, list}}
	})
}

func (o Output) tooManyChanged() error {
	if o.JSON {
		return nil // nvme-cli prints nothing
	}
	return o.text(func(b *strings.Builder) { b.WriteString("more than 1024 ns changed\n") })
}

// ReservationNotification prints the log as `nvme resv-notif-log` does.
func (o Output) ReservationNotification(r *capsule.ReservationLog) error {
	notices := []string{"Empty Log Page", "Registration Preempted", "Reservation Released", "Reservation Preempted"}
	return o.either(func(b *strings.Builder) {
		fmt.Fprintf(b, "Reservation Notif Log for device: %s\nLog Page Count\t\t\t\t: %d\n", o.Device, r.Count)
		fmt.Fprintf(b, "Resv Notif Log Page Type\t: %d (%s)\n", r.Notice, at(notices, r.Notice, "Reserved"))
		fmt.Fprintf(b, "Num of Available Log Pages\t: %d\nNamespace ID:\t\t\t\t: %d\n", r.Available, r.NSID)
	}, func() any {
		return object{{"count", integer(r.Count)}, {"rn_log_type", integer(r.Notice)}, {"num_logs", integer(r.Available)}, {"NSID", integer(r.NSID)}}
	})
}

// Reservations prints the data of Reservation Report as `nvme resv-report` does.
func (o Output) Reservations(r *capsule.ReservationTable, extended bool) error {
	return o.either(func(b *strings.Builder) {
		fmt.Fprintf(b, "\nNVME Reservation status:\n\ngen       : %d\nrtype     : %d\nregctl    : %d\nptpls     : %d\n",
			r.Generation, r.Type, r.Registrants, r.Persist)
		for i, h := range r.Hosts {
			if extended {
				fmt.Fprintf(b, "regctlext[%d] :\n  cntlid     : %x\n  rcsts      : %x\n  rkey       : %x\n  hostid     : %x\n", i, uint16(h.CNTLID), h.Holds, uint64(h.Key), h.Host[:])
				continue
			}
			fmt.Fprintf(b, "regctl[%d] :\n  cntlid  : %x\n  rcsts   : %x\n  hostid  : %x\n  rkey    : %x\n", i, uint16(h.CNTLID), h.Holds, shortHost(h), uint64(h.Key))
		}
		b.WriteByte('\n')
	}, func() any {
		hosts := []object{}
		for _, h := range r.Hosts {
			key, host := member{"rkey", integer(h.Key)}, member{"hostid", integer(shortHost(h))}
			o := object{{"cntlid", integer(h.CNTLID)}, {"rcsts", integer(h.Holds)}, host, key}
			if extended {
				o[2], o[3] = key, member{"hostid", fmt.Sprintf("%x", h.Host[:])}
			}
			hosts = append(hosts, o)
		}
		return object{{"gen", integer(r.Generation)}, {"rtype", integer(r.Type)}, {"regctl", integer(r.Registrants)},
			{"ptpls", integer(r.Persist)}, {choose(extended, "regctlext", "regctls"), hosts}}
	})
}

func shortHost(h capsule.ReservationRegistrant) uint64 { return binary.LittleEndian.Uint64(h.Host[:]) }
