package nvmecli

import (
	"fmt"
	"strings"

	"github.com/nvmeof-go/nvmeof/capsule"
)

// decodedProperty is a decoded property: its lines for people, and its members in JSON. If key is not empty, the first member
// is the value with this key.
type decodedProperty struct {
	key   string
	items []featureItem
	last  string // printed after the lines
}

func (s *decodedProperty) text(b *strings.Builder) {
	for _, i := range s.items {
		if i.line != "" {
			fmt.Fprintf(b, "\t%s\n", i.line)
		}
	}
	b.WriteString(s.last)
}

func (s *decodedProperty) json(value string) object {
	var o object
	if s.key != "" {
		o = object{{s.key, value}}
	}
	for _, i := range s.items {
		if i.key != "" {
			o = append(o, member{i.key, i.value})
		}
	}
	return o
}

// spellProperty returns nil for a property that it does not know.
func spellProperty(off capsule.PropertyOffset, v uint64) *decodedProperty {
	switch off {
	case capsule.PropertyCAP:
		return &decodedProperty{"cap", spellCAP(v), "\n"}
	case capsule.PropertyVS:
		s := capsule.Version(v).String()
		return &decodedProperty{"Version", []featureItem{item("NVMe specification "+s, "NVMe specification", s)}, "\n"}
	case capsule.PropertyCC:
		return &decodedProperty{"cc", spellCC(capsule.CC(v)), "\n"}
	case capsule.PropertyCSTS:
		return &decodedProperty{"csts", spellCSTS(v), "\n"}
	case capsule.PropertyNSSR:
		return &decodedProperty{"nssr", []featureItem{item(fmt.Sprintf("NVM Subsystem Reset Control (NSSRC): %d", v), "NVM Subsystem Reset Control (NSSRC)", integer(v))}, "\n"}
	case capsule.PropertyNSSD:
		return &decodedProperty{"", []featureItem{item("NVM Subsystem Shutdown Control (NSSC): "+hexed(v), "NVM Subsystem Shutdown Control (NSSC)", hexed(v))}, "\n"}
	case capsule.PropertyCRTO:
		c := capsule.CRTO(v)
		secs := func(name string, halves uint16) featureItem {
			s := fmt.Sprintf("%d secs", halves/2)
			return item(fmt.Sprintf("%-36s: %s", name, s), name, s)
		}
		return &decodedProperty{"crto", []featureItem{secs("CRIMT", c.Independent()), secs("CRWMT", c.WithMedia())}, ""}
	}
	return nil
}

// supported returns an item whose text says "Not Supported", and its JSON "Not supported".
func supported(line, key string, on bool) featureItem {
	return item(line+": "+choose(on, "Supported", "Not Supported"), key, choose(on, "Supported", "Not supported"))
}

func words(line, key, value string) featureItem { return item(line+": "+value, key, value) }

func yes(v bool) string { return choose(v, "Yes", "No") }

func spellCAP(v uint64) []featureItem {
	f := capsule.CAP(v).Fields()
	bit := func(n int) bool { return v>>n&1 != 0 }
	memory := func(line, name, key string, on bool) featureItem {
		return item(line+": The "+name+" is "+choose(on, "Supported", "Not Supported"), key, choose(on, "Supported", "Not supported"))
	}
	page := func(name, short string, exp uint8) featureItem {
		return words(fmt.Sprintf("Memory Page Size %s         (%s)", name, short), fmt.Sprintf("Memory Page Size %s (%s)", name, short), fmt.Sprintf("%d bytes", uint64(4096)<<exp))
	}
	power := []string{"Not Reported", "Controller scope", "Domain scope", "NVM subsystem scope"}
	items := []featureItem{
		supported("NVM Subsystem Shutdown Enhancements Supported (NSSES)", "NVM Subsystem Shutdown Enhancements Supported (NSSES)", bit(61)),
		supported("Controller Ready With Media Support (CRWMS)", "Controller Ready With Media Support (CRWMS)", bit(59)),
		supported("Controller Ready Independent of Media Support (CRIMS)", "Controller Ready Independent of Media Support (CRIMS)", bit(60)),
		supported("NVM Subsystem Shutdown Supported   (NSSS)", "NVM Subsystem Shutdown Supported (NSSS)", bit(58)),
		memory("Controller Memory Buffer Supported (CMBS)", "Controller Memory Buffer", "Controller Memory Buffer Supported (CMBS):", bit(57)),
		memory("Persistent Memory Region Supported (PMRS)", "Persistent Memory Region", "Persistent Memory Region Supported (PMRS)", bit(56)),
		page("Maximum", "MPSMAX", f.MPSMAX), page("Minimum", "MPSMIN", f.MPSMIN),
		words("Controller Power Scope              (CPS)", "Controller Power Scope (CPS)", power[v>>46&3]),
		words("Boot Partition Support              (BPS)", "Boot Partition Support (BPS)", yes(bit(45))),
	}
	items = append(items, commandSets(f.CSS)...)
	weighted := choose(f.AMS&1 != 0, "Supported", "Not supported")
	return append(items,
		words("NVM Subsystem Reset Supported     (NSSRS)", "NVM Subsystem Reset Supported (NSSRS)", yes(f.NSSRS)),
		words("Doorbell Stride                   (DSTRD)", "Doorbell Stride (DSTRD)", fmt.Sprintf("%d bytes", 4<<f.DSTRD)),
		words("Timeout                              (TO)", "Timeout (TO)", fmt.Sprintf("%d ms", int(f.TO)*500)),
		item("Arbitration Mechanism Supported     (AMS): Weighted Round Robin with Urgent Priority Class is "+weighted,
			"Arbitration Mechanism Supported (AMS)", []object{{{"Weighted Round Robin with Urgent Priority Class", weighted}}}),
		words("Contiguous Queues Required          (CQR)", "Contiguous Queues Required (CQR)", yes(f.CQR)),
		item(fmt.Sprintf("Maximum Queue Entries Supported    (MQES): %d", int(f.MQES)+1), "Maximum Queue Entries Supported (MQES)", integer(int(f.MQES)+1)))
}

func commandSets(css uint8) []featureItem {
	const indent = "                                           "
	nvm, many, none := css&capsule.CSSNVM != 0, css&capsule.CSSMany != 0, css&capsule.CSSNoIOSet != 0
	return []featureItem{
		item("Command Sets Supported              (CSS): NVM command set is "+choose(nvm, "Supported", "Not Supported"), "Command Sets Supported (CSS)", []object{{
			{"NVM command set", choose(nvm, "Supported", "Not supported")},
			{"One or more I/O Command Sets", choose(many, "Supported", "Not supported")},
			{choose(none, "Only Admin Command Set", "I/O Command Set"), "Supported"},
		}}),
		item(indent+"One or more I/O Command Sets are "+choose(many, "Supported", "Not Supported"), "", nil),
		item(indent+choose(none, "Only Admin Command Set Supported", "I/O Command Set is Supported"), "", nil),
	}
}

func spellCC(c capsule.CC) []featureItem {
	size := func(exp uint8) string { return fmt.Sprintf("%d bytes", 1<<exp) }
	shutdowns := []string{"No notification; no effect", "Normal shutdown notification", "Abrupt shutdown notification", "Reserved"}
	arbitrations := map[uint8]string{0: "Round Robin", 1: "Weighted Round Robin with Urgent Priority Class", 7: "Vendor Specific"}
	sets := map[uint8]string{capsule.CCCSSNVM: "NVM Command Set", capsule.CCCSSAll: "All supported I/O Command Sets", capsule.CCCSSAdmin: "Admin Command Set only"}
	other := func(names map[uint8]string, v uint8) string {
		if s, ok := names[v]; ok {
			return s
		}
		return "Reserved"
	}
	return []featureItem{
		words("Controller Ready Independent of Media Enable (CRIME)", "Controller Ready Independent of Media Enable (CRIME)", choose(c.CRIME(), "Enabled", "Disabled")),
		words("I/O Completion Queue Entry Size (IOCQES)", "I/O Completion Queue Entry Size (IOCQES): ", size(c.IOCQES())),
		words("I/O Submission Queue Entry Size (IOSQES)", "I/O Submission Queue Entry Size (IOSQES)", size(c.IOSQES())),
		words("Shutdown Notification              (SHN)", "Shutdown Notification (SHN)", shutdowns[c.Shutdown()]),
		words("Arbitration Mechanism Selected     (AMS)", "Arbitration Mechanism Selected (AMS)", other(arbitrations, c.AMS())),
		words("Memory Page Size                   (MPS)", "Memory Page Size (MPS)", fmt.Sprintf("%d bytes", 4096<<c.MPS())),
		words("I/O Command Set Selected           (CSS)", "I/O Command Set Selected (CSS)", other(sets, c.CSS())),
		words("Enable                              (EN)", "Enable (EN)", yes(c.Enable())),
	}
}

func spellCSTS(v uint64) []featureItem {
	bit := func(n int) bool { return v>>n&1 != 0 }
	states := []string{"Normal operation (no shutdown has been requested)", "Shutdown processing occurring", "Shutdown processing complete", "Reserved"}
	return []featureItem{
		words("Shutdown Type                   (ST)", "Shutdown Type (ST)", choose(bit(6), "Subsystem", "Controller")),
		words("Processing Paused               (PP)", "Processing Paused (PP)", yes(bit(5))),
		words("NVM Subsystem Reset Occurred (NSSRO)", "NVM Subsystem Reset Occurred (NSSRO)", yes(bit(4))),
		words("Shutdown Status               (SHST)", "Shutdown Status (SHST)", states[v>>2&3]),
		words("Controller Fatal Status        (CFS)", "Controller Fatal Status (CFS)", choose(bit(1), "True", "False")),
		words("Ready                          (RDY)", "Ready (RDY)", yes(bit(0))),
	}
}
