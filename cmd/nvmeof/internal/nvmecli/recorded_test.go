package nvmecli

import (
	"encoding/binary"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/nvmeof-go/nvmeof/capsule"
)

// A recording is a command line of nvme-cli with its output.
type recording struct {
	name string // of its file
	line string
	args map[string]string // options; the command has the key ""
	want string            // lines of standard error begin with "! "
	dw0  uint64            // of the completion
	fail uint16            // its status
}

// recordings reads a transcript: "$ nvme COMMAND OPTIONS #SETTINGS", then the output.
func recordings(t *testing.T, name string) (all []recording) {
	t.Helper()
	for _, part := range strings.Split("\n"+string(read(t, filepath.Join("recorded", name+".txt"))), "\n$ nvme ")[1:] {
		head, want, _ := strings.Cut(part, "\n")
		r := recording{name: name, line: head, args: map[string]string{}, want: want}
		command, settings, _ := strings.Cut(head, " #")
		r.set(t, command, settings)
		all = append(all, r)
	}
	for i := range all[:len(all)-1] {
		all[i].want += "\n" // removed by Split
	}
	return all
}

func (r *recording) set(t *testing.T, command, settings string) {
	words := strings.Fields(command)
	r.args[""] = words[0]
	for i, w := range words[1:] {
		if strings.HasPrefix(w, "-") {
			r.args[w] = "1"
			if i+2 < len(words) && !strings.HasPrefix(words[i+2], "-") {
				r.args[w] = words[i+2]
			}
		}
	}
	for s := range strings.FieldsSeq(settings) {
		k, v, _ := strings.Cut(s, "=")
		if strings.HasPrefix(k, "page") {
			r.args[k] = v
			continue
		}
		n, err := strconv.ParseUint(v, 0, 64)
		if err != nil {
			t.Fatal(err)
		}
		switch k {
		case "result":
			r.dw0 = n
		case "status":
			r.fail = uint16(n)
		default:
			r.args[k] = v
		}
	}
}

func (r *recording) number(option string, otherwise uint64) uint64 {
	if v, err := strconv.ParseUint(r.args[option], 0, 64); err == nil {
		return v
	}
	return otherwise
}

// page returns a recorded page of a given size. Trailing zeroes are not in the file.
func page(t testing.TB, name string, size int) []byte {
	t.Helper()
	b := make([]byte, size)
	f, err := os.ReadFile(filepath.Join("testdata/recorded/pages", name+".bin"))
	if err != nil {
		t.Fatal(err)
	}
	copy(b, f)
	return b
}

func decoded[T any](t *testing.T, decode func([]byte) (T, error), b []byte) *T {
	t.Helper()
	v, err := decode(b)
	if err != nil {
		t.Fatal(err)
	}
	return &v
}

// page returns a recorded page, or the one that the recording's settings select instead.
func (r *recording) page(t *testing.T, name string) []byte {
	if other := r.args["page"+name]; other != "" {
		name = other
	}
	return page(t, name, capsule.IdentifySize)
}

// log returns a recorded log page, or an empty one.
func (r *recording) log(t *testing.T, lid int, size int) []byte {
	switch {
	case r.name == "empty":
		return make([]byte, size)
	case r.name == "overflow":
		return binary.LittleEndian.AppendUint32(nil, uint32(capsule.NSIDBroadcast))
	}
	return r.page(t, fmt.Sprintf("log-%02x", lid))[:size]
}

// check compares the output of print for a recording with that of nvme-cli.
func (r *recording) check(t *testing.T, print func(o Output) error) {
	t.Helper()
	var out strings.Builder
	o := Output{W: &out, Device: "nvme0", JSON: r.args["-o"] == "json", Human: r.args["-H"] != "" || r.args["-v"] != ""}
	if err := print(o); err != nil {
		t.Fatalf("%s: %v", r.line, err)
	}
	t.Run(r.line, func(t *testing.T) { wantText(t, out.String(), r.want) })
}

func idsOf(b []byte) (ids []capsule.NSID) {
	for i := 0; capsule.NSIDAt(b, i) != 0; i++ {
		ids = append(ids, capsule.NSIDAt(b, i))
	}
	return ids
}

func TestLogsAsRecorded(t *testing.T) {
	var css uint8
	for _, name := range []string{"logs", "empty", "overflow"} {
		for _, r := range recordings(t, name) {
			if v := r.number("prop0", 0); v != 0 {
				css = capsule.CAP(v).Fields().CSS
			}
			r.check(t, func(o Output) error { return r.printLog(t, o, css) })
		}
	}
}

func (r *recording) printLog(t *testing.T, o Output, css uint8) error {
	switch r.args[""] {
	case "smart-log":
		return o.SMART(capsule.NSID(r.number("-n", 0xffffffff)), decoded(t, capsule.DecodeSMARTLog, r.log(t, 2, 512)))
	case "error-log":
		var entries []capsule.ErrorLogEntry
		for b := r.log(t, 1, 64*int(r.number("-e", 4))); len(b) > 0; b = b[64:] {
			entries = append(entries, *decoded(t, capsule.DecodeErrorLogEntry, b))
		}
		return o.Errors(entries)
	case "ana-log":
		return o.ANA(decoded(t, capsule.ParseANALog, r.log(t, 0xc, 4096)))
	case "effects-log":
		log := *decoded(t, capsule.DecodeEffectsLog, r.log(t, 5, 4096))
		var sets []Effects
		for _, csi := range EffectsSets(css, r.args["-c"] != "", capsule.CSI(r.number("-c", 0))) {
			sets = append(sets, Effects{csi, log})
		}
		return o.Effects(sets)
	case "fid-support-effects-log":
		return o.FeatureEffects(decoded(t, capsule.DecodeFIDEffectsLog, r.log(t, 0x12, 1024)))
	case "mi-cmd-support-effects-log":
		return o.MIEffects(decoded(t, capsule.DecodeMIEffectsLog, r.log(t, 0x13, 4096)))
	case "fw-log":
		return o.Firmware(decoded(t, capsule.DecodeFirmwareLog, r.log(t, 3, 512)))
	case "supported-log-pages":
		return o.SupportedLogs(decoded(t, capsule.DecodeSupportedLog, r.log(t, 0, 1024)))
	case "changed-ns-list-log":
		return o.ChangedNamespaces(idsOf(r.log(t, 4, 4096)))
	case "resv-notif-log":
		return o.ReservationNotification(decoded(t, capsule.DecodeReservationLog, r.log(t, 0x80, 64)))
	case "get-log":
		return o.GetLog(uint8(r.number("-i", 0)), uint32(r.number("-n", 0xffffffff)), r.log(t, int(r.number("-i", 0)), 4096)[:r.number("-l", 0)])
	}
	t.Fatalf("nobody prints %s", r.line)
	return nil
}

func TestIdentifyAsRecorded(t *testing.T) {
	for _, r := range recordings(t, "identify") {
		r.check(t, func(o Output) error { return r.printIdentify(t, o) })
	}
}

// TestVerboseAsRecorded checks what -H and -v print for every field with all of its bits set, none, and some.
func TestVerboseAsRecorded(t *testing.T) {
	for _, r := range recordings(t, "verbose") {
		r.check(t, func(o Output) error {
			if r.args[""] == "supported-log-pages" {
				return r.printLog(t, o, 0)
			}
			return r.printIdentify(t, o)
		})
	}
}

func (r *recording) printIdentify(t *testing.T, o Output) error {
	nsid := capsule.NSID(r.number("-n", 0))
	switch r.args[""] {
	case "id-ctrl":
		return o.IdentifyController(r.page(t, "id-01"), r.args["-V"] != "")
	case "id-ns":
		return o.IdentifyNamespace(nsid, r.page(t, "id-00"), r.args["-V"] != "")
	case "list-ns":
		cns := map[[2]bool]string{{false, false}: "id-02", {true, false}: "id-10", {false, true}: "id-07", {true, true}: "id-1a"}
		return o.NamespaceList(idsOf(page(t, cns[[2]bool{r.args["-a"] != "", r.args["-y"] != ""}], 4096)))
	case "ns-descs":
		return o.Descriptors(nsid, r.page(t, "id-03"))
	case "nvm-id-ns":
		return o.NVMNamespace(nsid, decoded(t, capsule.DecodeIdentifyNamespace, r.page(t, "id-00")), decoded(t, capsule.DecodeIdentifyNVMNamespace, r.page(t, "id-05")))
	case "cmdset-ind-id-ns":
		return o.IndependentNamespace(nsid, decoded(t, capsule.DecodeIdentifyNamespaceIndependent, r.page(t, "id-08")))
	case "nvm-id-ctrl":
		return o.NVMController(decoded(t, capsule.DecodeIdentifyNVMController, r.page(t, "id-06")))
	case "list-ctrl":
		return o.ControllerList([]capsule.ControllerID{1, 7, 65519})
	}
	t.Fatalf("nobody prints %s", r.line)
	return nil
}

func TestFeaturesAsRecorded(t *testing.T) {
	sizes := map[uint64]int{0x0e: 8, 0x16: 512, 0x81: 8}
	for _, r := range recordings(t, "features") {
		id := r.number("-f", 0)
		f := Feature{ID: capsule.FID(id), Select: capsule.FeatureSelect(r.number("-s", 0)), Value: uint32(r.dw0)}
		if n := int(r.number("-l", uint64(sizes[id]))); n > 0 && r.args[""] == "get-feature" {
			f.Data = page(t, fmt.Sprintf("feat-%02x", id), n)
		}
		if strings.HasPrefix(r.want, "! ") || r.fail != 0 && r.args["-o"] == "json" {
			r.checkStatus(t)
			continue
		}
		r.check(t, func(o Output) error {
			if r.args[""] == "set-feature" {
				return o.FeatureSet(f.ID, r.number("-V", 0), uint32(r.number("-c", 0)), strings.Contains(r.line, " -s"))
			}
			return o.Feature(f)
		})
	}
}

// checkStatus checks the output for commands that the controller rejected.
func (r *recording) checkStatus(t *testing.T) {
	if r.fail == 0 {
		return // rejected by nvme-cli itself, which the commands handle
	}
	var out strings.Builder
	s := capsule.Status(r.fail)
	switch {
	case r.args["-o"] != "json":
		fmt.Fprintln(&out, "!", Status(s))
	case r.args[""] == "get-feature":
		_ = FeatureStatusJSON(&out, s)
	default:
		_ = StatusJSON(&out, s)
	}
	t.Run(r.line, func(t *testing.T) { wantText(t, out.String(), r.want) })
}

func TestPropertiesAsRecorded(t *testing.T) {
	var nssr uint32
	for _, r := range recordings(t, "properties") {
		if r.args[""] == "show-regs" {
			r.check(t, func(o Output) error { return o.Registers(Registers{0x8200f01007f, 0x20000, 0x460061, 1, &nssr}) })
			continue
		}
		if off, err := strconv.ParseUint(r.args["-O"], 0, 32); err == nil && !strings.HasPrefix(r.want, "! ") {
			v := r.number(fmt.Sprintf("prop%x", off), 0)
			r.check(t, func(o Output) error { return o.Property(capsule.PropertyOffset(off), v) })
		}
	}
}

func TestReservationsAsRecorded(t *testing.T) {
	for _, name := range []string{"extended", "none", "short"} {
		extended := name != "short"
		table, err := capsule.ParseReservationTable(page(t, "resv-"+name, 4096), extended)
		if err != nil {
			t.Fatal(err)
		}
		for _, r := range recordings(t, "resv-"+name) {
			r.check(t, func(o Output) error { return o.Reservations(&table, extended) })
		}
	}
}

// TestStatusesAsRecorded checks every status that package capsule knows.
func TestStatusesAsRecorded(t *testing.T) {
	lines := strings.Split(strings.TrimSpace(string(read(t, "recorded/status.txt"))), "\n")
	for _, line := range lines {
		var code uint16
		if _, err := fmt.Sscanf(line[strings.LastIndex(line, "("):], "(0x%x)", &code); err != nil {
			t.Fatal(line, err)
		}
		if got := Status(capsule.Status(code)); got != line {
			t.Errorf("%q, want %q", got, line)
		}
	}
	for code, want := range map[capsule.Status]string{0: "Successful Completion", 0x7ff: "Vendor Specific Status", 0x4ff: "Unknown status", 0x99: "unrecognized"} {
		if got := StatusText(code); !strings.HasPrefix(got, want) {
			t.Errorf("%#x is %q, want %q", code, got, want)
		}
	}
}
