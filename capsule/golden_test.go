package capsule_test

import (
	"bytes"
	"fmt"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"github.com/nvmeof-go/nvmeof/capsule"
	"github.com/nvmeof-go/nvmeof/test/golden"
)

func eachCapture(t *testing.T, f func(t *testing.T, name string)) {
	t.Helper()
	names := golden.Names("nvme-")
	if len(names) != 12 {
		t.Fatalf("%d captures, want 12", len(names))
	}
	for _, name := range names {
		t.Run(name, func(t *testing.T) { f(t, name) })
	}
}

func wantBytes(t *testing.T, what string, got, want []byte) {
	t.Helper()
	if !bytes.Equal(got, want) {
		t.Fatalf("%s: got  % x\nwant % x", what, got, want)
	}
}

// dirty returns a buffer in which bytes that an encoder does not write are visible.
func dirty(n int) []byte {
	return bytes.Repeat([]byte{0xa5}, n)
}

func TestEverySendReencodesToTheSameBytes(t *testing.T) {
	commands, completions := 0, 0
	eachCapture(t, func(t *testing.T, name string) {
		for _, m := range messages(t, name) {
			if m.kind != kindSend {
				continue
			}
			if m.toTarget {
				wantCommandFixpoint(t, m)
				commands++
				continue
			}
			if len(m.data) != capsule.CompletionSize {
				t.Fatalf("packet %d: response of %d bytes", m.packet, len(m.data))
			}
			c, err := capsule.DecodeCompletion(m.data)
			if err != nil {
				t.Fatal(err)
			}
			out := dirty(capsule.CompletionSize)
			c.Encode(out)
			wantBytes(t, fmt.Sprintf("packet %d", m.packet), out, m.data)
			completions++
		}
	})
	if commands < 400 || completions < 350 {
		t.Errorf("only %d commands and %d completions in the captures", commands, completions)
	}
}

// wantCommandFixpoint encodes the whole command, and then only its typed fields.
func wantCommandFixpoint(t *testing.T, m message) {
	t.Helper()
	c, err := capsule.DecodeCommand(m.data)
	if err != nil {
		t.Fatal(err)
	}
	out := dirty(capsule.CommandSize)
	c.Encode(out)
	wantBytes(t, fmt.Sprintf("packet %d", m.packet), out, m.data[:capsule.CommandSize])

	rebuilt := capsule.Command{Opcode: c.Opcode, Flags: capsule.FlagsSGL, CID: c.CID, NSID: c.NSID, SGL: rebuildSGL(t, c.SGL)}
	if !rebuildFields(&rebuilt, c) {
		return
	}
	rebuilt.Encode(out)
	wantBytes(t, fmt.Sprintf("packet %d from its fields", m.packet), out, m.data[:capsule.CommandSize])
}

func rebuildSGL(t *testing.T, s capsule.SGL) capsule.SGL {
	t.Helper()
	kind, status := s.Classify()
	if !status.OK() {
		t.Fatalf("descriptor %+v: %v", s, status)
	}
	if kind == capsule.SGLKindInCapsule {
		built := capsule.InCapsuleSGL(s.Address, s.Length())
		if built.Address != s.Address || built.Length() != s.Length() || built.Type() != s.Type() || built.Subtype() != s.Subtype() {
			t.Fatalf("built %+v from %+v", built, s)
		}
		return s // Linux leaves bits of earlier commands in the reserved bytes
	}
	return capsule.KeyedSGL(s.Address, s.Length(), s.Key(), kind == capsule.SGLKindKeyedInvalidate)
}

// rebuildFields returns false for commands whose fields have no typed form, or a form that both queue types share.
func rebuildFields(to *capsule.Command, c capsule.Command) bool {
	if c.Opcode != capsule.OpcodeFabrics {
		return rebuildOther(to, c)
	}
	switch c.FabricsType() {
	case capsule.FabricsConnect:
		c.Connect().Put(to)
	case capsule.FabricsPropertyGet, capsule.FabricsPropertySet:
		c.Property().Put(to)
	case capsule.FabricsAuthSend, capsule.FabricsAuthReceive:
		c.Auth().Put(to)
	default:
		return false
	}
	return true
}

// rebuildOther determines the queue from NSID and opcode: in the captures opcodes 01h, 02h and 08h occur as I/O on
// namespace 1 with lengths in range; as Get Log Page, 02h has NSID 0 or all ones.
func rebuildOther(to *capsule.Command, c capsule.Command) bool {
	switch {
	case c.Opcode == 0x06:
		c.Identify().Put(to)
	case c.Opcode == 0x02 && c.NSID != 1:
		c.GetLogPage().Put(to)
	case c.Opcode == 0x01 && c.NSID == 1, c.Opcode == 0x02:
		c.ReadWrite().Put(to)
	case c.Opcode == 0x09 && c.NSID == 1:
		c.DatasetManagement().Put(to)
	default:
		return false
	}
	return true
}

func TestConnectDataReencodesToTheSameBytes(t *testing.T) {
	found := 0
	eachCapture(t, func(t *testing.T, name string) {
		for _, m := range messages(t, name) {
			if m.kind != kindReadResponse || len(m.data) != capsule.ConnectDataSize || !bytes.Contains(m.data, []byte("nqn.")) {
				continue
			}
			d, err := capsule.DecodeConnectData(m.data)
			if err != nil {
				t.Fatal(err)
			}
			if err := d.HostNQN.Check(); err != nil {
				t.Errorf("host NQN %q: %v", d.HostNQN.String(), err)
			}
			if err := d.SubNQN.Check(); err != nil {
				t.Errorf("subsystem NQN %q: %v", d.SubNQN.String(), err)
			}
			out := dirty(capsule.ConnectDataSize)
			d.Encode(out)
			wantBytes(t, "connect data", out, m.data)
			found++
		}
	})
	if found < 10 {
		t.Errorf("only %d Connect commands' data in the captures", found)
	}
}

func TestPrivateDataReencodesToTheSameBytes(t *testing.T) {
	found := map[string]int{}
	eachCapture(t, func(t *testing.T, name string) {
		for _, b := range mads(t, name, 0x10) {
			b = b[140+36:][:56]
			d, err := capsule.DecodeRequestData(b)
			if err != nil {
				t.Fatal(err)
			}
			out := make([]byte, 56)
			d.Encode(out)
			wantBytes(t, "REQ", out, b)
			found["REQ"]++
		}
		for _, b := range mads(t, name, 0x13) {
			d, err := capsule.DecodeAcceptData(b[36:])
			if err != nil {
				t.Fatal(err)
			}
			out := dirty(capsule.AcceptDataSize)
			d.Encode(out)
			wantBytes(t, "REP", out, b[36:36+32])
			found["REP"]++
		}
		for _, b := range mads(t, name, 0x12) {
			d, err := capsule.DecodeRejectData(b[84:])
			if err != nil {
				t.Fatal(err)
			}
			out := dirty(capsule.RejectDataSize)
			d.Encode(out)
			wantBytes(t, "REJ", out, b[84:84+4])
			found["REJ"]++
		}
	})
	if found["REQ"] < 10 || found["REP"] < 10 || found["REJ"] < 1 {
		t.Errorf("private data found: %v", found)
	}
}

// dataOf returns what the target wrote for the first command that match accepts.
func dataOf(t *testing.T, capture string, match func(*capsule.Command) bool) []byte {
	t.Helper()
	var at *capsule.Command
	for _, m := range messages(t, capture) {
		if m.kind == kindSend && m.toTarget && at == nil {
			c, err := capsule.DecodeCommand(m.data)
			if err != nil {
				t.Fatal(err)
			}
			if match(&c) {
				at = &c
			}
		}
		if m.kind == kindWrite && at != nil && m.addr == at.SGL.Address {
			return m.data
		}
	}
	t.Fatalf("%s: no such data", capture)
	return nil
}

func identify(cns capsule.CNS) func(*capsule.Command) bool {
	return func(c *capsule.Command) bool {
		return capsule.AdminOpcode(c.Opcode) == capsule.AdminIdentify && c.Identify().CNS == cns
	}
}

func logPage(lid capsule.LID, offset uint64) func(*capsule.Command) bool {
	return func(c *capsule.Command) bool {
		return capsule.AdminOpcode(c.Opcode) == capsule.AdminGetLogPage && c.NSID != 1 &&
			c.GetLogPage().LID == lid && c.GetLogPage().LPO == offset
	}
}

// textFields parses the "name : value" lines of nvme-cli.
func textFields(name string) map[string]string {
	fields := map[string]string{}
	for _, line := range strings.Split(golden.Text(name), "\n") {
		if k, v, ok := strings.Cut(line, ":"); ok {
			fields[strings.TrimSpace(k)] = strings.TrimSpace(v)
		}
	}
	return fields
}

func wantField(t *testing.T, text map[string]string, name string, got uint64) {
	t.Helper()
	want, err := strconv.ParseUint(text[name], 0, 64)
	if err != nil {
		t.Fatalf("%s: %v", name, err)
	}
	if got != want {
		t.Errorf("%s = %#x, nvme-cli says %#x", name, got, want)
	}
}

func TestIdentifyControllerAgreesWithNvmeCli(t *testing.T) {
	b := dataOf(t, "nvme-connect", identify(capsule.CNSController))
	c, err := capsule.DecodeIdentifyController(b)
	if err != nil {
		t.Fatal(err)
	}
	out := dirty(capsule.IdentifySize)
	c.Encode(out)
	wantBytes(t, "identify controller", out, b)

	text := textFields("id-ctrl")
	for name, got := range map[string]uint64{
		"cmic": uint64(c.CMIC), "mdts": uint64(c.MDTS), "cntlid": uint64(c.CNTLID), "ver": uint64(c.VER),
		"oaes": uint64(c.OAES), "ctratt": uint64(c.CTRATT), "cntrltype": uint64(c.CNTRLTYPE),
		"acl": uint64(c.ACL), "aerl": uint64(c.AERL), "frmw": uint64(c.FRMW), "lpa": uint64(c.LPA),
		"elpe": uint64(c.ELPE), "kas": uint64(c.KAS), "anatt": uint64(c.ANATT), "anacap": uint64(c.ANACAP),
		"anagrpmax": uint64(c.ANAGRPMAX), "nanagrpid": uint64(c.NANAGRPID), "sqes": uint64(c.SQES),
		"cqes": uint64(c.CQES), "maxcmd": uint64(c.MAXCMD), "nn": uint64(c.NN), "oncs": uint64(c.ONCS),
		"vwc": uint64(c.VWC), "nwpc": uint64(c.NWPC), "sgls": uint64(c.SGLS), "mnan": uint64(c.MNAN),
		"ioccsz": uint64(c.IOCCSZ), "iorcsz": uint64(c.IORCSZ), "msdbd": uint64(c.MSDBD), "rab": uint64(c.RAB),
	} {
		wantField(t, text, name, got)
	}
	for name, got := range map[string]string{
		"sn": capsule.Text(c.SN[:]), "mn": capsule.Text(c.MN[:]), "fr": capsule.Text(c.FR[:]), "subnqn": c.SubNQN.String(),
	} {
		if got != text[name] {
			t.Errorf("%s = %q, nvme-cli says %q", name, got, text[name])
		}
	}
}

func TestIdentifyNamespaceAgreesWithNvmeCli(t *testing.T) {
	b := dataOf(t, "nvme-connect", identify(capsule.CNSNamespace))
	n, err := capsule.DecodeIdentifyNamespace(b)
	if err != nil {
		t.Fatal(err)
	}
	out := dirty(capsule.IdentifySize)
	n.Encode(out)
	wantBytes(t, "identify namespace", out, b)
	text := textFields("id-ns")
	for name, got := range map[string]uint64{
		"nsze": n.NSZE, "ncap": n.NCAP, "nuse": n.NUSE, "nsfeat": uint64(n.NSFEAT),
		"nmic": uint64(n.NMIC), "anagrpid": uint64(n.ANAGRPID), "nlbaf": uint64(n.NLBAF),
	} {
		wantField(t, text, name, got)
	}
	if f := n.Format(); f.LBADS != 9 || f.MS != 0 {
		t.Errorf("format in use %+v, nvme-cli says lbads 9, ms 0", f)
	}
}

func TestDiscoveryLogAgreesWithNvmeCli(t *testing.T) {
	header := dataOf(t, "nvme-discover", logPage(capsule.LogDiscovery, 0))
	h, err := capsule.DecodeDiscoveryHeader(header)
	if err != nil {
		t.Fatal(err)
	}
	if h.NUMREC != 3 || h.GENCTR != 5 || h.RECFMT != 0 {
		t.Errorf("header %+v, nvme-cli says 3 records, generation 5", h)
	}
	entries := dataOf(t, "nvme-discover", logPage(capsule.LogDiscovery, capsule.DiscoveryHeaderSize))
	subnqn := regexp.MustCompile(`subnqn: +(\S+)`).FindAllStringSubmatch(golden.Text("discover"), -1)
	for i, want := range subnqn {
		e, err := capsule.DecodeDiscoveryEntry(entries[i*capsule.DiscoveryEntrySize:])
		if err != nil {
			t.Fatal(err)
		}
		if e.SubNQN.String() != want[1] || capsule.Text(e.TRADDR[:]) != "10.9.0.1" || capsule.Text(e.TRSVCID[:]) != "4420" {
			t.Errorf("entry %d: %s at %s port %s", i, e.SubNQN.String(), capsule.Text(e.TRADDR[:]), capsule.Text(e.TRSVCID[:]))
		}
		if e.TRTYPE != capsule.TransportRDMA || e.ADRFAM != capsule.FamilyIPv4 || e.PORTID != 1 || e.TREQ&capsule.TREQNoFlowControl == 0 {
			t.Errorf("entry %d: %+v", i, e)
		}
		out := dirty(capsule.DiscoveryEntrySize)
		e.Encode(out)
		wantBytes(t, "discovery entry", out, entries[i*capsule.DiscoveryEntrySize:][:capsule.DiscoveryEntrySize])
	}
}

// TestAdminDataReencodesToTheSameBytes covers every kind of data that nvmet
// returned for Identify and Get Log Page.
func TestAdminDataReencodesToTheSameBytes(t *testing.T) {
	size := map[string]codec{}
	for _, c := range codecs {
		size[c.name] = c
	}
	for _, c := range []struct {
		capture string
		codec   string
		match   func(*capsule.Command) bool
	}{
		{"nvme-admin", "SMART log", logPage(capsule.LogSMART, 0)},
		{"nvme-admin", "error log entry", logPage(capsule.LogError, 0)},
		{"nvme-admin", "firmware log", logPage(capsule.LogFirmwareSlot, 0)},
		{"nvme-admin", "ANA log header", logPage(capsule.LogANA, 0)},
		{"nvme-connect", "ANA log header", logPage(capsule.LogANA, 0)},
		{"nvme-connect", "identify controller, NVM", identify(capsule.CNSControllerCSI)},
		{"nvme-discover", "identify controller", identify(capsule.CNSController)},
	} {
		b := dataOf(t, c.capture, c.match)
		out := dirty(size[c.codec].size)
		if err := size[c.codec].recode(b, out); err != nil {
			t.Fatal(c.codec, err)
		}
		wantBytes(t, c.codec, out, b[:len(out)])
	}
}

func TestANALogOfTheCapture(t *testing.T) {
	b := dataOf(t, "nvme-connect", logPage(capsule.LogANA, 0))
	h, err := capsule.DecodeANALogHeader(b)
	if err != nil || h.NGRPS != 1 {
		t.Fatalf("header %+v, %v", h, err)
	}
	d, err := capsule.DecodeANADescriptor(b[capsule.ANALogHeaderSize:])
	if err != nil || d.Group != 1 || d.NNSIDS != 1 || d.State != capsule.ANAOptimized {
		t.Errorf("descriptor %+v, %v", d, err)
	}
	if id := capsule.NSIDAt(b[capsule.ANALogHeaderSize+capsule.ANADescriptorHeader:], 0); id != 1 {
		t.Errorf("namespace %d", id)
	}
}

func TestListsOfTheCapture(t *testing.T) {
	list := dataOf(t, "nvme-connect", identify(capsule.CNSActiveNamespaces))
	if capsule.NSIDAt(list, 0) != 1 || capsule.NSIDAt(list, 1) != 0 {
		t.Errorf("active namespaces % x", list[:8])
	}
	b := dataOf(t, "nvme-connect", identify(capsule.CNSDescriptors))
	var types []capsule.DescriptorType
	for {
		typ, id, rest, err := capsule.NextDescriptor(b)
		if err != nil {
			t.Fatal(err)
		}
		if rest == nil {
			break
		}
		if len(id) != typ.Length() {
			t.Errorf("descriptor type %d of %d bytes", typ, len(id))
		}
		types, b = append(types, typ), rest
	}
	if len(types) != 2 || types[0] != capsule.DescriptorUUID || types[1] != capsule.DescriptorCSI {
		t.Errorf("descriptors %v", types)
	}
	effects := dataOf(t, "nvme-connect", logPage(capsule.LogEffects, 0))
	if capsule.AdminEffects(effects, capsule.AdminIdentify)&capsule.EffectSupported == 0 ||
		capsule.IOEffects(effects, capsule.IOWrite)&capsule.EffectBlockContentChange == 0 ||
		capsule.AdminEffects(effects, capsule.AdminFormat) != 0 {
		t.Error("effects log reads wrong")
	}
}
