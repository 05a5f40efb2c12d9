package interop

import (
	"encoding/json"
	"fmt"
	"math/big"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/nvmeof-go/nvmeof/capsule"
)

// TestPages: "nvme-cli's own view of each page (nvme smart-log, effects-log, ana-log,
// resv-*, show-regs, get-feature, list-subsys, supported-log-pages, ...) is right", of
// 256 MiB of memory in blocks of 512 bytes and a thin file of 64 MiB in blocks of 4096.
func TestPages(t *testing.T) {
	needGuest(t)
	if *peer == peerKernel {
		t.Skip("what nvmet has on these pages is its own")
	}
	l := newLab(t)
	l.link(t, 9000)
	l.second = "size=64MiB,bs=4096,thin"
	s := setting{"memory", 9000, "ipv4"}
	l.startTarget(t, s)
	e := s.env()
	l.onHost(t, time.Minute, "connect", e)
	at := l.logEnd(t)
	l.onHost(t, 4*time.Minute, "pages", e.with(env{
		"features": features(), "unknown_features": "03 08 10", "unknown_logs": "07 0e 81"}))
	l.wantCleanLog(t, at, askedReset)
	judgePages(t, pages{filepath.Join(l.hostDir, "pages")})
	l.onHost(t, time.Minute, "foreground", env{"command": "nvme disconnect -n " + targetNQN})
}

// judgePages compares what pages.sh recorded.
func judgePages(t *testing.T, p pages) {
	for _, c := range []struct {
		name  string
		judge func(*testing.T)
	}{
		{"controller", p.controller}, {"namespaces", p.namespaces}, {"lists", p.lists},
		{"logs", p.logs}, {"features", p.features}, {"smart", p.smart}, {"errors", p.errors},
		{"settings", p.settings}, {"protection", p.protection}, {"reservations", p.reservations}, {"reset", p.reset},
	} {
		t.Run(c.name, c.judge)
	}
}

// pages is the directory of the answers.
type pages struct{ dir string }

func (p pages) text(t *testing.T, name string) string {
	t.Helper()
	b, err := os.ReadFile(filepath.Join(p.dir, name))
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}

func (p pages) failed(t *testing.T, name string) bool {
	t.Helper()
	return strings.TrimSpace(p.text(t, name+".rc")) != "0"
}

func (p pages) wantDone(t *testing.T, names ...string) {
	t.Helper()
	for _, name := range names {
		if p.failed(t, name) {
			t.Errorf("%s failed: %s%s", name, p.text(t, name+".err"), p.text(t, name+".out"))
		}
	}
}

// wantRefused fails the test unless each answer has a text: a status as nvme-cli prints it.
func (p pages) wantRefused(t *testing.T, text string, names ...string) {
	t.Helper()
	for _, name := range names {
		if answer := p.text(t, name+".err") + p.text(t, name+".out"); !p.failed(t, name) || !strings.Contains(answer, text) {
			t.Errorf("%s is not refused with %q: %s", name, text, answer)
		}
	}
}

// A node is a part of an answer in JSON.
type node struct{ v any }

func (p pages) json(t *testing.T, name string) node {
	t.Helper()
	p.wantDone(t, name)
	s := p.text(t, name+".out")
	d := json.NewDecoder(strings.NewReader(s[max(0, strings.IndexAny(s, "{[")):])) // some have a heading
	d.UseNumber()
	var v any
	if err := d.Decode(&v); err != nil {
		t.Fatalf("%s: %v in %q", name, err, s)
	}
	return node{v}
}

// at follows keys and indices. It returns a node of nil if there is no such part.
func (n node) at(path ...any) node {
	for _, k := range path {
		switch v := n.v.(type) {
		case map[string]any:
			n.v = v[fmt.Sprint(k)]
		case []any:
			i, ok := k.(int)
			if n.v = nil; ok && i < len(v) {
				n.v = v[i]
			}
		default:
			n.v = nil
		}
	}
	return n
}

func (n node) String() string { return strings.TrimSpace(fmt.Sprint(n.v)) }

// number returns the number in the node, or -1 if it is none.
func (n node) number() int64 {
	i, err := strconv.ParseInt(n.String(), 10, 64)
	if err != nil {
		return -1
	}
	return i
}

// fields are the wanted members of an object. All values are compared as text.
type fields map[string]any

func (n node) want(t *testing.T, what string, want fields) {
	t.Helper()
	for k, w := range want {
		if got := n.at(k).String(); got != fmt.Sprint(w) {
			t.Errorf("%s: %s is %q, want %v", what, k, got, w)
		}
	}
}

// is fails the test unless the whole node is want in JSON.
func (n node) is(t *testing.T, what, want string) {
	t.Helper()
	if got, err := json.Marshal(n.v); err != nil || string(got) != want {
		t.Errorf("%s is %s, want %s", what, got, want)
	}
}

func (p pages) controller(t *testing.T) {
	p.json(t, "id-ctrl").want(t, "Identify Controller", fields{
		"mn": "nvmeof", "fr": "1.0", "subnqn": targetNQN, "ver": 2 << 16, "cntrltype": 1,
		"cmic": 0b1011, "mdts": 8, "oaes": 0x900, "ctratt": 0x41, "oacs": 0, "acl": 3, "aerl": 3, "frmw": 0b11,
		"lpa": 0b110111, "elpe": 63, "npss": 0, "wctemp": 273 + 80, "cctemp": 273 + 90, "kas": 10,
		"anatt": 10, "anacap": 0x1f, "anagrpmax": 129, "nanagrpid": 129, "sqes": 0x66, "cqes": 0x44, "maxcmd": 128,
		"nn": 4096, "mnan": 4096, "oncs": 0b111101101, "fuses": 1, "fna": 0, "vwc": 0b111, "nwpc": 0b11, "ocfs": 1,
		"sgls": 0x100005, "ioccsz": (64 + 4096) / 16, "iorcsz": 1, "icdoff": 0, "msdbd": 16, "ofcs": 1,
	})
	p.json(t, "nvm-id-ctrl").want(t, "its part of the NVM command set", fields{"vsl": 0, "wzsl": 0, "dmrl": 0, "dmrsl": 0, "dmsl": 0})
	p.json(t, "id-iocs").at("IOCSC0").want(t, "command sets", fields{
		"NVM Command Set": "Selected", "Key Value Command Set": "Not selected", "Zoned Namespace Command Set": "Not selected"})
	registers := p.json(t, "registers")
	want := capsule.CAPFields{MQES: 127, CQR: true, TO: 15, CSS: capsule.CSSNVM | capsule.CSSMany, CRMS: 3}
	registers.want(t, "registers", fields{"cap": uint64(want.CAP()), "vs": 2 << 16, "csts": 1,
		"cc": uint32(capsule.CC(0).WithEnable(true).WithCSS(capsule.CCCSSAll).WithEntrySizes(6, 4))})
	p.wantDone(t, "crto")
	if s := p.text(t, "crto.out"); !strings.Contains(s, "value: 0xf000f\n") {
		t.Errorf("CRTO: %q, want 0xf000f", s)
	}
}

// spaces describe the namespaces.
var spaces = []struct{ nsid, bytes, shift, optimal int }{{1, targetSize, 9, 4096}, {2, 64 << 20, 12, 4096}}

func (p pages) namespaces(t *testing.T) {
	for _, s := range spaces {
		n := strconv.Itoa(s.nsid)
		ids := p.json(t, "descriptors-"+n).at("ns-descs")
		uuid := ids.at(1, "uuid").String()
		nguid := strings.ReplaceAll(uuid, "-", "")
		ids.is(t, "descriptors of "+n, fmt.Sprintf(`[{"Type":"nguid","loc":0,"nguid":"%s","nidl":16,"nidt":2},`+
			`{"Type":"uuid","loc":20,"nidl":16,"nidt":3,"uuid":"%s"},{"Type":"csi","csi":"0","loc":40,"nidl":1,"nidt":4}]`, nguid, uuid))
		if got, want := strings.Fields(p.text(t, "sysfs-"+n+".out")), []string{n, uuid, uuid}; fmt.Sprint(got) != fmt.Sprint(want) {
			t.Errorf("the kernel's nsid, uuid and nguid of %s: %v, want %v", n, got, want)
		}
		for _, name := range []string{"id-ns-", "allocated-"} {
			id := p.json(t, name+n)
			id.want(t, name+n, fields{
				"nsze": s.bytes >> s.shift, "ncap": s.bytes >> s.shift, "nuse": 0, "nvmcap": s.bytes,
				"nsfeat": capsule.NSFEATThin | capsule.NSFEATOptimal, "npwg": s.optimal>>s.shift - 1, "nows": s.optimal>>s.shift - 1,
				"nlbaf": 0, "flbas": 0, "mc": 0, "dpc": 0, "dps": 0, "nmic": 1, "rescap": 0xfe, "dlfeat": capsule.DLFEATWriteZeroes,
				"mssrl": 4 << 20 >> s.shift, "mcl": 64 << 20 >> s.shift, "msrc": 127, "anagrpid": 1, "nsattr": 0, "nguid": nguid,
			})
			id.at("lbafs").is(t, "formats of "+n, fmt.Sprintf(`[{"ds":%d,"ms":0,"rp":0}]`, s.shift))
		}
		p.json(t, "nvm-id-ns-"+n).want(t, "nvm-id-ns-"+n, fields{"pic": 0, "lbstm": 0})
		p.json(t, "independent-"+n).want(t, "independent-"+n, fields{
			"nsfeat": 0, "nmic": 1, "rescap": 0xfe, "anagrpid": 1, "nsattr": 0, "nstat": 1})
		p.json(t, "list-ctrl-"+n).want(t, "controllers of "+n, fields{"num_ctrl": 1})
	}
	for _, name := range []string{"id-ns-3", "allocated-3"} {
		p.json(t, name).want(t, name, fields{"nsze": 0, "ncap": 0, "nguid": strings.Repeat("0", 32)})
	}
	p.json(t, "independent-3").want(t, "independent-3", fields{"nmic": 0, "nstat": 0})
	p.wantRefused(t, "Invalid Namespace or Format", "descriptors-3")
	p.wantRefused(t, "Invalid Field in Command", "list-ctrl-3")
	for name, want := range map[string]string{"list-ns": `[{"nsid":1},{"nsid":2}]`, "list-ns-all": `[{"nsid":1},{"nsid":2}]`,
		"list-ns-nvm": `[{"nsid":1},{"nsid":2}]`, "list-ns-from-2": `[{"nsid":2}]`} {
		p.json(t, name).at("nsid_list").is(t, name, want)
	}
}

// lists checks what nvme-cli derives from sysfs and Identify together.
func (p pages) lists(t *testing.T) {
	id := p.json(t, "id-ctrl")
	p.json(t, "list-ctrl").at("ctrl_list").is(t, "list-ctrl", fmt.Sprintf(`[{"ctrl_id":%s}]`, id.at("cntlid")))
	sub := p.json(t, "list-subsys").at(0, "Subsystems", 0)
	sub.want(t, "list-subsys", fields{"NQN": targetNQN})
	const address = "traddr=10.9.0.1,trsvcid=4420,host_traddr=10.9.0.2"
	sub.at("Paths", 0).want(t, "its path", fields{"Transport": "rdma", "Address": address, "State": "live"})
	sub = p.json(t, "list-v").at("Devices", 0, "Subsystems", 0)
	sub.want(t, "list -v", fields{"SubsystemNQN": targetNQN})
	sub.at("Controllers", 0).want(t, "its controller", fields{"Cntlid": id.at("cntlid"), "SerialNumber": id.at("sn"),
		"ModelNumber": "nvmeof", "Firmware": "1.0", "Transport": "rdma", "Address": address})
	for i := range spaces {
		sub.at("Controllers", 0, "Paths", i).want(t, "its path", fields{"ANAState": "optimized"})
	}
	for name, list := range map[string]node{"list -v": sub.at("Namespaces"), "list": p.json(t, "list").at("Devices")} {
		for i := range spaces {
			ns := list.at(i)
			nsid := ns.at("NSID").number() // nvme list names it NameSpace
			s := spaces[max(nsid, ns.at("NameSpace").number())-1]
			ns.want(t, name, fields{"UsedBytes": 0, "MaximumLBA": s.bytes >> s.shift, "PhysicalSize": s.bytes, "SectorSize": 1 << s.shift})
		}
	}
}

func (p pages) logs(t *testing.T) {
	p.json(t, "fw-log").at("nvme0").want(t, "fw-log", fields{"Active Firmware Slot (afi)": 1})
	if s := p.text(t, "fw-log.out"); !strings.Contains(s, "(1.0") {
		t.Errorf("fw-log: %s", s)
	}
	sets := p.json(t, "effects")
	for i := range 2 { // nvme-cli reads the log of each command set of CAP
		sets.at(i, "admin_cmd_set").is(t, "admin commands", `{"ACS_10 (Get Features)":1,"ACS_12 (Asynchronous Event Request)":1,`+
			`"ACS_2 (Get Log Page)":1,"ACS_24 (Keep Alive)":1,"ACS_6 (Identify)":1,"ACS_8 (Abort)":1,"ACS_9 (Set Features)":1}`)
		if i == 0 { // of the zoned command set, which nvme-cli lists first
			sets.at(i, "io_cmd_set").is(t, "I/O commands of the zoned set", `{}`)
			continue
		}
		sets.at(i, "io_cmd_set").is(t, "I/O commands", `{"IOCS_0 (Flush)":1,"IOCS_1 (Write)":3,"IOCS_12 (Verify)":1,`+
			`"IOCS_13 (Reservation Register)":1,"IOCS_14 (Reservation Report)":1,"IOCS_17 (Reservation Acquire)":1,"IOCS_2 (Read)":1,`+
			`"IOCS_21 (Reservation Release)":1,"IOCS_25 (Copy)":3,"IOCS_5 (Compare)":1,"IOCS_8 (Write Zeroes)":3,"IOCS_9 (Dataset Management)":3}`)
	}
	p.json(t, "supported").at("supported_logs").is(t, "supported-log-pages", `[{"lid_0x0 ":1},{"lid_0x1 ":1},{"lid_0x2 ":1},{"lid_0x3 ":1},`+
		`{"lid_0x4 ":1},{"lid_0x5 ":1},{"lid_0xc ":1},{"lid_0xd ":1},{"lid_0x12 ":1},{"lid_0x13 ":1},{"lid_0x80 ":1}]`)
	var effects []string
	for _, f := range featureValues {
		effects = append(effects, fmt.Sprintf(`{"fid_%d":%d}`, f.id, capsule.FIDSupported|f.effects))
	}
	p.json(t, "features").at("fid_support").is(t, "fid-support-effects-log", "["+strings.Join(effects, ",")+"]")
	p.json(t, "management").at("mi_command_support").is(t, "mi-cmd-support-effects-log", "[]")
	p.json(t, "changed").at("nvme0").is(t, "changed-ns-list-log", "{}")
	p.wantRefused(t, "Invalid Log Page", "log-07", "log-0e", "log-81")
	p.wantRefused(t, "Command Sequence Error", "events-early")
	p.wantDone(t, "events", "events-release")
	for _, want := range []string{"Log Header Length: 492", "Event Header Length: 21", "Smart Health Event Entry", "Power On Reset Event Entry", "Namespace Size: 16384"} {
		if text := p.text(t, "events.out"); !strings.Contains(text, want) {
			t.Errorf("persistent-event-log has no %q:\n%s", want, text)
		}
	}

	ana := p.json(t, "ana")
	ana.want(t, "ana-log", fields{"ngrps": 1})
	group := ana.at("ANA DESC LIST ", 0)
	group.want(t, "ana-log", fields{"grpid": 1, "nnsids": 2, "state": "optimized"})
	group.at("NSIDS").is(t, "namespaces of the ANA group", `[{"nsid":1},{"nsid":2}]`)
	p.json(t, "ana-groups").at("ANA DESC LIST ", 0).want(t, "ana-log --groups", fields{"grpid": 1, "nnsids": 0, "state": "optimized"})
}

// featureValues are what Get Features must return for each feature: the current value, as Linux leaves it, and the
// default. Features that return data are checked by this value too.
var featureValues = []struct {
	id               capsule.FID
	current, initial uint32
	can              uint32 // capabilities
	effects          capsule.FeatureEffects
}{
	{capsule.FeatureArbitration, 0, 0, change, capsule.FIDControllerScope},
	{capsule.FeaturePowerManagement, 0, 0, change, capsule.FIDControllerScope},
	{capsule.FeatureTemperatureThreshold, 273 + 80, 273 + 80, change, capsule.FIDControllerScope},
	{capsule.FeatureErrorRecovery, 0, 0, change, capsule.FIDControllerScope},
	{capsule.FeatureVolatileWriteCache, 1, 1, capsule.FeatureChangeable, capsule.FIDControllerScope},
	{capsule.FeatureNumberOfQueues, 0x30003, 0x7f007f, change, capsule.FIDControllerScope},
	{capsule.FeatureWriteAtomicity, 0, 0, change, capsule.FIDControllerScope},
	{capsule.FeatureAsyncEvent, 0x900, 0, change, capsule.FIDControllerScope},
	{capsule.FeatureTimestamp, 0, 0, change, capsule.FIDControllerScope},
	{capsule.FeatureKeepAliveTimer, 5000, 0, change, capsule.FIDControllerScope},
	{capsule.FeatureHostBehavior, 0, 0, change, capsule.FIDControllerScope},
	{capsule.FeatureProgressMarker, 0, 0, change, capsule.FIDSubsystemScope},
	{capsule.FeatureHostID, 0, 0, 0, capsule.FIDControllerScope},
	{capsule.FeatureReservationMask, 0, 0, change | each, capsule.FIDNamespaceScope},
	{capsule.FeatureReservationPersist, 0, 0, change | each, capsule.FIDNamespaceScope},
	{capsule.FeatureNamespaceWriteProtect, 0, 0, change | each, capsule.FIDNamespaceScope | capsule.FIDNamespaceChanges},
}

const (
	change = capsule.FeatureChangeable
	each   = capsule.FeatureNamespaceSpecific
)

// features returns the identifiers for the script.
func features() string {
	var ids []string
	for _, f := range featureValues {
		ids = append(ids, fmt.Sprintf("%02x", uint8(f.id)))
	}
	return strings.Join(ids, " ")
}

// feature returns the value and the decoded rest of one answer.
func (p pages) feature(t *testing.T, name string, id capsule.FID, selected string) (uint64, node) {
	t.Helper()
	n := p.json(t, name)
	s := n.at(fmt.Sprintf("feature: 0x%02x", uint8(id)), 0, selected).String()
	v, err := strconv.ParseUint(strings.TrimPrefix(s, "0x"), 16, 32)
	if err != nil {
		t.Errorf("%s: value %q", name, s)
	}
	return v, n.at(fmt.Sprintf("Feature: 0x%02x", uint8(id)), 0)
}

func (p pages) features(t *testing.T) {
	for _, f := range featureValues {
		for sel, c := range []struct {
			name string
			want uint32
		}{{"Current", f.current}, {"Default", f.initial}, {"Saved", f.initial}, {"Supported capabilities", f.can}} {
			name := fmt.Sprintf("feature-%02x-%d", uint8(f.id), sel)
			if v, _ := p.feature(t, name, f.id, c.name); v != uint64(c.want) {
				t.Errorf("%s is %#x, want %#x", name, v, c.want)
			}
		}
	}
	p.wantRefused(t, "Invalid Field in Command", "feature-03", "feature-08", "feature-10")

	// The kernel has set the timestamp; the guest's clock is that of this machine.
	_, stamp := p.feature(t, "feature-0e-0", capsule.FeatureTimestamp, "Current")
	if age := time.Since(time.UnixMilli(stamp.at("timestamp").number())); age < -time.Minute || age > 10*time.Minute {
		t.Errorf("timestamp %v is %v old", stamp, age)
	}
	_, stamp = p.feature(t, "feature-0e-1", capsule.FeatureTimestamp, "Default")
	stamp.want(t, "default timestamp", fields{"timestamp": 0})
	for sel, name := range []string{"Current", "Default", "Saved"} {
		_, n := p.feature(t, fmt.Sprintf("feature-81-%d", sel), capsule.FeatureHostID, name)
		n.want(t, "host identifier", fields{"Host Identifier (HOSTID)": p.hostID(t)})
	}
}

// hostID returns the first half of list-subsys' host identifier, as nvme-cli prints the feature's: as a little-endian
// number.
func (p pages) hostID(t *testing.T) string {
	digits := strings.ReplaceAll(p.json(t, "list-subsys").at(0, "HostID").String(), "-", "")
	var low string
	for i := min(16, len(digits)); i >= 2; i -= 2 {
		low += digits[i-2 : i]
	}
	v, ok := new(big.Int).SetString(low, 16)
	if !ok {
		t.Fatalf("host identifier %q", digits)
	}
	return v.String()
}

// moved has the bytes and commands of the script's dd, by the suffix of the SMART page.
var moved = map[string]struct{ bytes, commands int64 }{
	"": {12 << 20, 192}, "-1": {8 << 20, 128}, "-2": {4 << 20, 64},
}

func (p pages) smart(t *testing.T) {
	units := func(bytes int64) int64 { return (bytes + 511999) / 512000 }
	for ns, m := range moved {
		idle, written, read := p.json(t, "smart-idle"+ns), p.json(t, "smart-written"+ns), p.json(t, "smart-read"+ns)
		for _, n := range []node{idle, written, read} {
			n.want(t, "smart-log"+ns, fields{"critical_warning": 0, "temperature": 0, "avail_spare": 100, "spare_thresh": 10,
				"percent_used": 0, "power_cycles": 1, "power_on_hours": 0, "unsafe_shutdowns": 0, "media_errors": 0})
		}
		idle.want(t, "idle"+ns, fields{"data_units_written": 0, "host_write_commands": 0})
		written.want(t, "written"+ns, fields{"data_units_written": units(m.bytes), "host_write_commands": m.commands})
		read.want(t, "read"+ns, fields{"data_units_written": units(m.bytes), "host_write_commands": m.commands,
			"host_read_commands": written.at("host_read_commands").number() + m.commands})
		// Both counts are rounded up.
		if d := read.at("data_units_read").number() - written.at("data_units_read").number(); d != units(m.bytes) && d != units(m.bytes)-1 {
			t.Errorf("smart-log%s: %d data units read of %d bytes", ns, d, m.bytes)
		}
	}
	for _, s := range spaces {
		n := strconv.Itoa(s.nsid)
		p.json(t, "used-"+n).want(t, "used-"+n, fields{"nuse": moved["-"+n].bytes >> s.shift})
	}
}

// errors checks the entries of the script's three bad commands, the newest first.
func (p pages) errors(t *testing.T) {
	p.wantRefused(t, "(0x4080)", "past-a", "past-b")
	p.wantRefused(t, "(0x4001)", "unknown")
	list := p.json(t, "errors").at("errors")
	raw := []byte(p.text(t, "errors-raw.out"))
	newest := list.at(0, "error_count").number()
	for i, want := range []capsule.ErrorLogEntry{
		{Status: capsule.StatusInvalidOpcode | capsule.StatusDNR, NSID: 1, Opcode: 0x7e, Parameter: capsule.ParameterAt(0, 0)},
		{Status: capsule.StatusLBAOutOfRange | capsule.StatusDNR, NSID: 2, LBA: 0x89abcdef, Opcode: capsule.Opcode(capsule.IORead), Parameter: capsule.ParameterAt(10, 0)},
		{Status: capsule.StatusLBAOutOfRange | capsule.StatusDNR, NSID: 1, LBA: 0x12345678, Opcode: capsule.Opcode(capsule.IORead), Parameter: capsule.ParameterAt(10, 0)},
	} {
		n := list.at(i)
		n.want(t, "error-log", fields{"error_count": newest - int64(i), "status_field": uint16(want.Status), "phase_tag": 0,
			"parm_error_location": want.Parameter, "lba": uint64(want.LBA), "nsid": uint32(want.NSID), "trtype": 1})
		if n.at("sqid").number() < 1 {
			t.Errorf("error %d is of queue %v", i, n.at("sqid"))
		}
		if len(raw) < (i+1)*capsule.ErrorLogEntrySize {
			t.Fatalf("%d bytes of error log", len(raw))
		}
		e, err := capsule.DecodeErrorLogEntry(raw[i*capsule.ErrorLogEntrySize:])
		if err != nil || e.Opcode != want.Opcode || e.Status != want.Status || e.LBA != want.LBA {
			t.Errorf("error %d: %+v, %v, want %+v", i, e, err, want)
		}
	}
	for ns := range moved {
		p.json(t, "smart-errors"+ns).want(t, "smart-log"+ns, fields{"num_err_log_entries": newest, "media_errors": 0})
	}
}

func (p pages) settings(t *testing.T) {
	p.wantDone(t, "limit-set", "limit-back", "cache-on", "cache-off", "cache-back")
	if v, _ := p.feature(t, "limit-got", capsule.FeatureTemperatureThreshold, "Current"); v != 298 {
		t.Errorf("temperature threshold %d", v)
	}
	p.json(t, "smart-limit").want(t, "without a temperature", fields{"critical_warning": 0, "temperature": 0})
	for name, want := range map[string]uint64{"cache-got": 0, "cache-again": 1} {
		if v, _ := p.feature(t, name, capsule.FeatureVolatileWriteCache, "Current"); v != want {
			t.Errorf("%s: write cache %d, want %d", name, v, want)
		}
	}
	p.wantRefused(t, "(0x410d)", "saved") // not saveable
}

func (p pages) protection(t *testing.T) {
	p.wantDone(t, "protect", "protect-read", "protect-elsewhere", "unprotect", "unprotect-write")
	p.wantRefused(t, "(0x4020)", "protect-write") // namespace is write protected
	for name, want := range map[string]uint64{"protect-got": 1, "protect-other": 0} {
		if v, _ := p.feature(t, name, capsule.FeatureNamespaceWriteProtect, "Current"); v != want {
			t.Errorf("%s: %d, want %d", name, v, want)
		}
	}
	p.json(t, "protect-ns").want(t, "id-ns of a protected one", fields{"nsattr": 1, "nsze": targetSize >> 9})
	p.json(t, "protect-independent").want(t, "independent part", fields{"nsattr": 1, "nstat": 1})
}

func (p pages) reservations(t *testing.T) {
	p.wantDone(t, "resv-register", "resv-acquire", "resv-release", "resv-gone")
	p.json(t, "resv-none").want(t, "resv-report", fields{"gen": 0, "rtype": 0, "regctl": 0, "ptpls": 0})
	held := p.json(t, "resv-held")
	held.want(t, "resv-report", fields{"gen": 1, "rtype": 3, "regctl": 1, "ptpls": 0})
	held.at("regctlext", 0).want(t, "its registrant", fields{"cntlid": uint16(capsule.ControllerIDDynamic), // of controllers of the dynamic model
		"rcsts": 1, "rkey": 0xa1, "hostid": strings.ReplaceAll(p.json(t, "list-subsys").at(0, "HostID").String(), "-", "")})
	p.json(t, "resv-after").want(t, "resv-report", fields{"gen": 2, "rtype": 0, "regctl": 0})
	p.json(t, "resv-notif").want(t, "resv-notif-log", fields{"count": 0, "rn_log_type": 0, "num_logs": 0, "NSID": 0})
}

// reset checks what a new controller over fabrics, of the same subsystem, has.
func (p pages) reset(t *testing.T) {
	p.wantDone(t, "rescan", "reset-limit", "reset-marker", "reset")
	before := p.json(t, "id-ctrl")
	p.json(t, "reset-id").want(t, "id-ctrl after a reset", fields{"sn": before.at("sn"), "subnqn": targetNQN})
	p.json(t, "reset-errors").at("errors", 0).want(t, "error-log of a new controller", fields{"error_count": 0, "status_field": 0})
	if v, _ := p.feature(t, "reset-limit-got", capsule.FeatureTemperatureThreshold, "Current"); v != 273+80 {
		t.Errorf("temperature threshold %d after a reset", v)
	}
	if v, _ := p.feature(t, "reset-marker-got", capsule.FeatureProgressMarker, "Current"); v != 5 {
		t.Errorf("progress marker %d after a reset", v)
	}
}
