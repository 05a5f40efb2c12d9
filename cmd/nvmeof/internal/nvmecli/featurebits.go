package nvmecli

import (
	"encoding/binary"
	"fmt"
	"time"

	"github.com/nvmeof-go/nvmeof/capsule"
)

// A featureItem is a part of a feature's value: a line of -H and a member of the JSON, either of which may be empty.
type featureItem struct {
	line  string
	key   string
	value any
}

func item(line, key string, value any) featureItem { return featureItem{line, key, value} }

// same returns an item whose line consists of the key and the value.
func same(key, value string) featureItem { return featureItem{key + ": " + value, key, value} }

func count(key string, v uint32) featureItem {
	return featureItem{fmt.Sprintf("%s: %d", key, v), key, integer(v)}
}

// featureDecoders decodes the features that controllers over fabrics have, and other features of one dword.
var featureDecoders = map[capsule.FID]func(v uint32, data []byte) []featureItem{
	capsule.FeatureArbitration:          arbitration,
	capsule.FeaturePowerManagement:      powerManagement,
	capsule.FeatureTemperatureThreshold: temperatureThreshold,
	capsule.FeatureErrorRecovery:        errorRecovery,
	capsule.FeatureNumberOfQueues:       numberOfQueues,
	capsule.FeatureInterruptCoalescing:  interruptCoalescing,
	capsule.FeatureInterruptVector:      interruptVector,
	capsule.FeatureAsyncEvent:           asyncEvents,
	capsule.FeatureTimestamp:            timestamp,
	0x10:                                thermalManagement,
	capsule.FeatureHostBehavior:         hostBehavior,
	capsule.FeatureHostID:               hostIdentifier,
	capsule.FeatureReservationMask:      reservationMask,
	capsule.FeatureVolatileWriteCache: func(v uint32, _ []byte) []featureItem {
		return []featureItem{same("Volatile Write Cache Enable (WCE)", choose(v&1 != 0, "Enabled", "Disabled"))}
	},
	capsule.FeatureWriteAtomicity: func(v uint32, _ []byte) []featureItem {
		return []featureItem{same("Disable Normal (DN)", truth(v&1 != 0))}
	},
	capsule.FeatureKeepAliveTimer: func(v uint32, _ []byte) []featureItem {
		return []featureItem{count("Keep Alive Timeout (KATO) in milliseconds", v)}
	},
	0x11: func(v uint32, _ []byte) []featureItem {
		return []featureItem{same("Non-Operational Power State Permissive Mode Enable (NOPPME)", truth(v&1 != 0))}
	},
	capsule.FeatureProgressMarker: func(v uint32, _ []byte) []featureItem {
		return []featureItem{count("Pre-boot Software Load Count (PBSLC)", v&0xff)}
	},
	capsule.FeatureReservationPersist: func(v uint32, _ []byte) []featureItem {
		return []featureItem{same("Persist Through Power Loss (PTPL)", truth(v&1 != 0))}
	},
	capsule.FeatureNamespaceWriteProtect: func(v uint32, _ []byte) []featureItem {
		states := []string{"No Write Protect", "Write Protect", "Write Protect Until Power Cycle", "Permanent Write Protect"}
		return []featureItem{same("Namespace Write Protect", at(states, v, "Reserved"))}
	},
}

func decodeFeature(f Feature) (items []featureItem, known bool) {
	decode, known := featureDecoders[f.ID]
	if !known {
		return nil, false
	}
	return decode(f.Value, f.Data), true
}

func truth(v bool) string { return choose(v, "True", "False") }

func arbitration(v uint32, _ []byte) []featureItem {
	burst := "No limit"
	if v&7 != 7 {
		burst = fmt.Sprint(1 << (v & 7))
	}
	weight := func(name, short, pad string, shift int) featureItem {
		w := v>>shift&0xff + 1
		return item(fmt.Sprintf("%s Priority Weight%s (%s): %d", name, pad, short, w), fmt.Sprintf("%s Priority Weight (%s)", name, short), integer(w))
	}
	return []featureItem{
		weight("High", "HPW", "  ", 24), weight("Medium", "MPW", "", 16), weight("Low", "LPW", "   ", 8),
		item("Arbitration Burst       (AB): "+burst, "Arbitration Burst (AB)", burst),
	}
}

func powerManagement(v uint32, _ []byte) []featureItem {
	hint := v >> 5 & 7
	words := at([]string{"No Workload", "Extended Idle Period with a Burst of Random Writes", "Heavy Sequential Writes"}, hint, "Reserved")
	return []featureItem{
		item(fmt.Sprintf("Workload Hint (WH): %d - %s", hint, words), "Workload Hint (WH)", integer(hint)), item("", "WH description", words),
		item(fmt.Sprintf("Power State   (PS): %d", v&0x1f), "Power State (PS)", integer(v&0x1f)),
	}
}

func temperatureThreshold(v uint32, _ []byte) []featureItem {
	hysteresis, kind, sensor, limit := uint16(v>>22&7), v>>20&3, v>>16&0xf, uint16(v)
	kindWords := at([]string{"Over Temperature Threshold", "Under Temperature Threshold"}, kind, "Reserved")
	sensorWords := "Composite Temperature"
	if sensor > 8 {
		sensorWords = "Reserved"
	} else if sensor > 0 {
		sensorWords = fmt.Sprintf("Temperature Sensor %d", sensor)
	}
	return []featureItem{
		item("Temperature Threshold Hysteresis(TMPTHH): "+celsius(hysteresis), "Temperature Threshold Hysteresis (TMPTHH)", degrees(hysteresis)),
		item("", "TMPTHH kelvin", kelvins(hysteresis)),
		item(fmt.Sprintf("Threshold Type Select         (THSEL): %d - %s", kind, kindWords), "Threshold Type Select (THSEL)", integer(kind)),
		item("", "THSEL description", kindWords),
		item(fmt.Sprintf("Threshold Temperature Select (TMPSEL): %d - %s", sensor, sensorWords), "Threshold Temperature Select (TMPSEL)", integer(sensor)),
		item("", "TMPSEL description", sensorWords),
		item("Temperature Threshold         (TMPTH): "+celsius(limit), "Temperature Threshold (TMPTH)", degrees(limit)),
		item("", "TMPTH kelvin", kelvins(limit)),
	}
}

func degrees(k uint16) string { return fmt.Sprintf("%d Celsius", int(k)-273) }
func kelvins(k uint16) string { return fmt.Sprintf("%d K", k) }

func errorRecovery(v uint32, _ []byte) []featureItem {
	on, limit := choose(v>>16&1 != 0, "Enabled", "Disabled"), fmt.Sprintf("%d ms", v&0xffff*100)
	return []featureItem{
		same("Deallocated or Unwritten Logical Block Error Enable (DULBE)", on),
		item("Time Limited Error Recovery                          (TLER): "+limit, "Time Limited Error Recovery (TLER)", limit),
	}
}

func numberOfQueues(v uint32, _ []byte) []featureItem {
	q := capsule.ParseQueueCounts(v)
	return []featureItem{
		count("Number of IO Completion Queues Allocated (NCQA)", uint32(q.Completion)),
		count("Number of IO Submission Queues Allocated (NSQA)", uint32(q.Submission)),
	}
}

func interruptCoalescing(v uint32, _ []byte) []featureItem {
	wait := fmt.Sprintf("%d usec", v>>8&0xff*100)
	return []featureItem{
		item("Aggregation Time     (TIME): "+wait, "Aggregation Time (TIME)", wait),
		count("Aggregation Threshold (THR)", v&0xff+1),
	}
}

func interruptVector(v uint32, _ []byte) []featureItem {
	return []featureItem{
		same("Coalescing Disable (CD)", truth(v>>16&1 != 0)),
		item(fmt.Sprintf("Interrupt Vector   (IV): %d", v&0xffff), "Interrupt Vector (IV)", integer(v&0xffff)),
	}
}

func thermalManagement(v uint32, _ []byte) []featureItem {
	line := func(i int, k uint16) string {
		return fmt.Sprintf("Thermal Management Temperature %d (TMT%d) : %d K (%d °C)", i, i, k, int(k)-273)
	}
	high, low := uint16(v>>16), uint16(v)
	return []featureItem{
		item(line(1, high), "Thermal Management Temperature 1 (TMT1)", kelvins(high)), item("", "TMT1 celsius", degrees(high)),
		item(line(2, low), "Thermal Management Temperature 2", kelvins(low)), item("", "TMT2 celsius", degrees(low)),
	}
}

// asyncEvents lists events. The JSON omits those that nvme-cli 2.13 omits.
func asyncEvents(v uint32, _ []byte) (items []featureItem) {
	const textOnly = true
	for _, e := range []struct {
		name string
		mask uint32
		text bool
	}{
		{"Discovery Log Page Change Notices", 1 << 31, false}, {"Host Discovery Log Page Change Notification", 1 << 30, false},
		{"AVE Discovery Log Page Change Notification", 1 << 29, false}, {"Pull Model DDC Request Log Page Change Notification", 1 << 28, false},
		{"Zone Descriptor Changed Notices", 1 << 27, false}, {"Allocated Namespace Attribute Notices", 1 << 19, textOnly},
		{"Reachability Group", 1 << 18, false}, {"Reachability Association", 1 << 17, false},
		{"Temperature Threshold Hysteresis Recovery", 1 << 16, textOnly}, {"Normal NVM Subsystem Shutdown", 1 << 15, false},
		{"Endurance Group Event Aggregate Log Change Notices", 1 << 14, false}, {"LBA Status Information Notices", 1 << 13, false},
		{"Predictable Latency Event Aggregate Log Change Notices", 1 << 12, false},
		{"Asymmetric Namespace Access Change Notices", 1 << 11, false}, {"Telemetry Log Notices", 1 << 10, false},
		{"Firmware Activation Notices", 1 << 9, false}, {"Namespace Attribute Notices", 1 << 8, false},
		{"SMART / Health Critical Warnings", 0xff, false},
	} {
		words := choose(v&e.mask != 0, "Send async event", "Do not send async event")
		items = append(items, item(fmt.Sprintf("%-58s: %s", e.name, words), choose(e.text, "", e.name), words))
	}
	return items
}

func timestamp(_ uint32, data []byte) []featureItem {
	var b [8]byte
	copy(b[:], data)
	millis := binary.LittleEndian.Uint64(append(b[:6:6], 0, 0))
	const set, reset = "The Timestamp field was initialized with a Timestamp value using a Set Features command.",
		"The Timestamp field was initialized to %s by a Controller Level Reset."
	from := func(zero string) string { return choose(b[6]&2 != 0, set, fmt.Sprintf(reset, zero)) }
	synch := choose(b[6]&1 != 0, "The controller may have stopped counting during vendor specific intervals after the Timestamp value was initialized",
		"The controller counted time in milliseconds continuously since the Timestamp value was initialized.")
	date := time.UnixMilli(int64(millis)).UTC().Format("Mon Jan _2 15:04:05 2006 UTC")
	return []featureItem{
		item(fmt.Sprintf("The timestamp is : %d (%s)", millis, date), "timestamp", integer(millis)), item("", "timestamp string", date),
		item(from("‘0’"), "timestamp origin", from("0h")), item(synch, "synch", synch+choose(b[6]&1 != 0, ".", "")),
	}
}

func hostBehavior(_ uint32, data []byte) []featureItem {
	var b [6]byte
	copy(b[:], data)
	format := func(i int) featureItem {
		v := truth(b[4]>>i&1 != 0)
		return item(fmt.Sprintf("Copy Descriptor Format %dh Enabled (CDF%dE) : %s", i, i, v), fmt.Sprintf("Copy Descriptor Format %dh Enable (CDF%dE)", i, i), v)
	}
	dispersed := choose(b[3] != 0, "Enabled", "Disabled")
	return []featureItem{
		item("", "Host Behavior Support", truth(b[0]&1 != 0)),
		same("Advanced Command Retry Enable (ACRE)", truth(b[0] != 0)), same("Extended Telemetry Data Area 4 Supported (ETDAS)", truth(b[1] != 0)),
		same("LBA Format Extension Enable (LBAFEE)", truth(b[2] != 0)),
		item("Host Dispersed Namespace Support (HDISNS) : "+dispersed, "Host Dispersed Namespace Support (HDISNS)", dispersed),
		format(2), format(3), format(4),
	}
}

// hostIdentifier shows the first 8 bytes, as one number.
func hostIdentifier(_ uint32, data []byte) []featureItem {
	var b [8]byte
	copy(b[:], data)
	id := binary.LittleEndian.Uint64(b[:])
	return []featureItem{item(fmt.Sprintf("Host Identifier (HOSTID):  %d", id), "Host Identifier (HOSTID)", integer(id))}
}

func reservationMask(v uint32, _ []byte) []featureItem {
	line := func(name, pad, short string, bit int) featureItem {
		on := truth(v>>bit&1 != 0)
		return item(fmt.Sprintf("Mask %s Notification%s (%s): %s", name, pad, short, on), fmt.Sprintf("Mask %s Notification (%s)", name, short), on)
	}
	return []featureItem{
		line("Reservation Preempted", " ", "RESPRE", 3), line("Reservation Released", "  ", "RESREL", 2), line("Registration Preempted", "", "REGPRE", 1),
	}
}
