package target

import (
	"errors"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/nvmeof-go/nvmeof/capsule"
)

var update = flag.Bool("update", false, "write the table of what the target supports into docs/compatibility.md")

const (
	supportPage  = "../../docs/compatibility.md"
	supportBegin = "<!-- go test ./nvmeof/target -run TestSupportTable -update -->\n"
	supportEnd   = "<!-- end of the table -->\n"
)

// covered has the name of a table row, and the test that covers it.
type covered struct{ name, test string }

var adminTests = map[capsule.AdminOpcode]string{
	capsule.AdminGetLogPage:  "TestBadGetLogPage",
	capsule.AdminIdentify:    "TestBadIdentify",
	capsule.AdminAbort:       "TestAbort",
	capsule.AdminSetFeatures: "TestBadFeatures",
	capsule.AdminGetFeatures: "TestBadFeatures",
	capsule.AdminAsyncEvent:  "TestNamespaceChanges",
	capsule.AdminKeepAlive:   "TestKeepAliveIsHeld",
}

var fabricsTests = map[capsule.FabricsType]string{
	capsule.FabricsPropertySet: "TestBadEnable",
	capsule.FabricsConnect:     "TestBadAdminConnect",
	capsule.FabricsPropertyGet: "TestBadProperties",
	capsule.FabricsAuthSend:    "TestAuthenticate",
	capsule.FabricsAuthReceive: "TestAuthenticate",
	capsule.FabricsDisconnect:  "TestBadFabricsCommands",
}

var ioTests = map[capsule.IOOpcode]string{
	capsule.IOFlush:               "TestFlush",
	capsule.IOWrite:               "TestReadBack",
	capsule.IORead:                "TestReadBack",
	capsule.IOCompare:             "TestCompare",
	capsule.IOWriteZeroes:         "TestWriteZeroes",
	capsule.IODatasetManagement:   "TestDatasetManagement",
	capsule.IOVerify:              "TestVerify",
	capsule.IOCopy:                "TestCopy",
	capsule.IOReservationRegister: "TestReservation",
	capsule.IOReservationReport:   "TestReservation",
	capsule.IOReservationAcquire:  "TestPreemptAndAbort",
	capsule.IOReservationRelease:  "TestReservation",
}

var identifyTests = map[capsule.CNS]covered{
	capsule.CNSNamespace:            {"namespace", "TestNamespaceIdentifiers"},
	capsule.CNSController:           {"controller", "TestLinuxStartUpSequence"},
	capsule.CNSActiveNamespaces:     {"active namespaces", "TestMasking"},
	capsule.CNSDescriptors:          {"namespace identification descriptors", "TestNamespaceIdentifiers"},
	capsule.CNSNamespaceCSI:         {"namespace, of the NVM command set", "TestBadIdentify"},
	capsule.CNSControllerCSI:        {"controller, of the NVM command set", "TestLinuxStartUpSequence"},
	capsule.CNSActiveNamespacesCSI:  {"active namespaces of a command set", "TestMasking"},
	capsule.CNSNamespaceIndependent: {"namespace, of any command set", "TestBadIdentify"},
	capsule.CNSAllocatedNamespaces:  {"allocated namespaces", "TestMasking"},
	capsule.CNSAllocatedNamespace:   {"allocated namespace", "TestMasking"},
	capsule.CNSNamespaceControllers: {"controllers of a namespace", "TestMasking"},
	capsule.CNSControllers:          {"controllers of the subsystem", "TestMasking"},
	capsule.CNSCommandSets:          {"command sets", "TestBadIdentify"},
}

var featureTests = map[capsule.FID]covered{
	capsule.FeatureArbitration:           {"arbitration", "TestBadFeatures"},
	capsule.FeaturePowerManagement:       {"power management", "TestBadFeatures"},
	capsule.FeatureTemperatureThreshold:  {"temperature threshold", "TestTemperatureThreshold"},
	capsule.FeatureErrorRecovery:         {"error recovery", "TestBadFeatures"},
	capsule.FeatureVolatileWriteCache:    {"volatile write cache", "TestBadFeatures"},
	capsule.FeatureNumberOfQueues:        {"number of queues", "TestQIDAboveTheNumberGranted"},
	capsule.FeatureWriteAtomicity:        {"write atomicity", "TestBadFeatures"},
	capsule.FeatureAsyncEvent:            {"asynchronous events", "TestBadFeatures"},
	capsule.FeatureTimestamp:             {"timestamp", "TestTimestampOrigin"},
	capsule.FeatureKeepAliveTimer:        {"keep alive timer", "TestKeepAliveTimeouts"},
	capsule.FeatureHostBehavior:          {"host behavior support", "TestBadFeatures"},
	capsule.FeatureProgressMarker:        {"software progress marker", "TestProgressMarkerOutlivesReset"},
	capsule.FeatureHostID:                {"host identifier", "TestBadFeatures"},
	capsule.FeatureReservationMask:       {"reservation notification mask", "TestReservationFeatures"},
	capsule.FeatureReservationPersist:    {"reservation persistence", "TestReservationFeatures"},
	capsule.FeatureNamespaceWriteProtect: {"namespace write protection", "TestWriteProtection"},
}

var logTests = map[capsule.LID]covered{
	capsule.LogSupportedPages:    {"supported log pages", "TestLinuxStartUpSequence"},
	capsule.LogError:             {"error information", "TestErrorLog"},
	capsule.LogSMART:             {"SMART / health information", "TestSMARTCountsCommands"},
	capsule.LogFirmwareSlot:      {"firmware slots", "TestLogPagesEndWithZeroes"},
	capsule.LogChangedNamespaces: {"changed namespaces", "TestChangedNamespacesOverflow"},
	capsule.LogEffects:           {"commands supported and effects", "TestLinuxStartUpSequence"},
	capsule.LogPersistentEvent:   {"persistent events", "TestPersistentEventLog"},
	capsule.LogANA:               {"asymmetric namespace access", "TestANALog"},
	capsule.LogFIDEffects:        {"features supported and effects", "TestFeaturesLog"},
	capsule.LogMIEffects:         {"NVMe-MI commands supported: none", "TestFeaturesLog"},
	capsule.LogDiscovery:         {"discovery", "TestDiscoveryLog"},
	capsule.LogReservation:       {"reservation notifications", "TestReservationNotices"},
}

// A supportTable has the contents of the dispatch tables, row by row.
type supportTable struct {
	t     *testing.T
	tests map[string]string // file by name
	b     strings.Builder
}

func (s *supportTable) row(kind string, code int, c covered, io, disc bool) {
	file := s.tests[c.test]
	switch {
	case c.test == "":
		s.t.Errorf("%s %02xh has no test in this table", kind, code)
	case file == "":
		s.t.Errorf("%s %02xh: there is no test %s", kind, code, c.test)
	}
	kinds := "I/O"
	switch {
	case io && disc:
		kinds = "both"
	case disc:
		kinds = "discovery"
	}
	fmt.Fprintf(&s.b, "| %s | %02xh | %s | %s | [%s](../nvmeof/target/%s) |\n", kind, code, c.name, kinds, c.test, file)
}

func (s *supportTable) write(t *Target) string {
	s.b.WriteString("| | | | controllers | test |\n|---|---|---|---|---|\n")
	for i, r := range t.admin {
		if op := capsule.AdminOpcode(i); r.run != nil {
			s.row("admin command", i, covered{op.String(), adminTests[op]}, r.io, r.disc)
		}
	}
	for i, r := range t.fabrics {
		if op := capsule.FabricsType(i); r.run != nil {
			s.row("fabrics command", i, covered{op.String(), fabricsTests[op]}, true, true)
		}
	}
	for i, r := range t.io {
		if op := capsule.IOOpcode(i); r.start != nil {
			s.row("I/O command", i, covered{op.String(), ioTests[op]}, true, false)
		}
	}
	for i, r := range t.identify {
		if r.fill != nil {
			s.row("Identify CNS", i, identifyTests[capsule.CNS(i)], true, r.always)
		}
	}
	for i, f := range t.features {
		if f.get != nil {
			s.row("feature", i, featureTests[capsule.FID(i)], true, f.always)
		}
	}
	for i, r := range t.logs {
		if r.exists() {
			s.row("log page", i, logTests[capsule.LID(i)], r.io, r.disc)
		}
	}
	return s.b.String()
}

// testsHere returns the tests of this package and of its internal packages.
func testsHere(t *testing.T) map[string]string {
	files, err := filepath.Glob("*_test.go")
	inner, err2 := filepath.Glob("internal/*/*_test.go")
	deeper, err3 := filepath.Glob("internal/*/*/*_test.go")
	if err := errors.Join(err, err2, err3); err != nil {
		t.Fatal(err)
	}
	declared := regexp.MustCompile(`(?m)^func (Test\w+)\(t \*testing\.T\)`)
	tests := make(map[string]string)
	for _, f := range slices.Concat(files, inner, deeper) {
		b, err := os.ReadFile(f)
		if err != nil {
			t.Fatal(err)
		}
		for _, m := range declared.FindAllSubmatch(b, -1) {
			tests[string(m[1])] = f
		}
	}
	return tests
}

// TestSupportTable compares the table of docs/compatibility.md with the dispatch tables.
func TestSupportTable(t *testing.T) {
	s := &supportTable{t: t, tests: testsHere(t)}
	want := s.write(newFixture(t).target)
	b, err := os.ReadFile(supportPage)
	if err != nil {
		t.Fatal(err)
	}
	before, rest, ok := strings.Cut(string(b), supportBegin)
	got, after, ok2 := strings.Cut(rest, supportEnd)
	if !ok || !ok2 {
		t.Fatal("docs/compatibility.md has no place for the table")
	}
	if *update {
		if err := os.WriteFile(supportPage, []byte(before+supportBegin+want+supportEnd+after), 0o644); err != nil {
			t.Fatal(err)
		}
		return
	}
	if got != want {
		t.Errorf("docs/compatibility.md says something else of what the target supports: go test ./nvmeof/target -run TestSupportTable -update")
	}
}
