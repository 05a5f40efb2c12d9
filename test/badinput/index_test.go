package badinput

import (
	"flag"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
)

// catalogue holds the rows, one to a line of its tables: "| 47 | what comes | answer | tests |".
const catalogue = "README.md"

// lastRow is the last row of the catalogue. Rows after lastCited are not cited in the comments of their tests.
const (
	lastRow   = 164
	lastCited = 116
)

// untestable lists the rows that cannot be tested, with the reason.
var untestable = map[int]string{}

// further lists the tests whose comments name no row, by the last element of their directory.
var further = map[int][]string{
	15:  {"badinput.TestQueuePairsThatAreNotUp"},
	79:  {"baddisk.TestFaults", "baddisk.TestVanishes"},
	81:  {"baddisk.TestPowerFailsUnderLoad"},
	85:  {"control.TestReservationsSwapped"},
	82:  {"target.TestStoreDoesNotAnswer", "target.TestStalledStoreLeavesRoom", "baddisk.TestHang"},
	32:  {"rc.TestPrograms", "softroce.TestLossyNetwork", "rdmatest.TestSoftroceLossy"},
	117: {"control.TestHostDuringChanges", "control.TestRestart", "control.TestNotRight"},
	118: {"target.TestReplacedNamespace", "target.TestReplacedCommands", "target.TestUseBeforeIdentify", "control.TestReplaceUnderLoad"},
	119: {"host.TestRefresh", "host.TestReplaced"},
	120: {"multipath.TestRefusedPath", "multipath.TestRefusedAlone"},
	121: {"host.TestShortData"},
	122: {"host.TestEndlessList"},
	123: {"target.TestStalledHost", "target.TestUndeliveredLogPages", "target.TestUndeliveredReads", "target.TestResponsesNotTaken", "badinput.TestPeerPutsOff", "badinput.TestPeerGoesSilent", "rc.TestPutOff"},
	124: {"target.TestTimeoutsOfHosts", "target.TestProbe", "target.TestFalseLogins", "target.TestTurnsOfAddresses", "badinput.TestFloodOfConnections"},
	125: {"target.TestIdentifierOfAnother", "target.TestIdentifiersAndKeys", "target.TestReadersCannotReserve"},
	126: {"inuse.TestFindMount", "inuse.TestFindImage", "inuse.TestExported"},
	127: {"control.TestNotRight", "control.TestLoss", "control.TestCutOff", "control.TestForeseeLost", "control.TestPowerFails", "namedfile.TestReplacePowerFails",
		"control.TestStartWithoutKey", "control.TestRereadWithoutKey", "target.TestUnreadyHost", "control.TestStateMissing"},
	128: {"control.TestApplyWhatWasCutShort", "namedfile.TestRead", "namedfile.TestReadPipe", "namedfile.TestRootFollows"},
	129: {"nvmecli.TestTextOfPeers", "nvmecli.TestHostileText", "host.TestDiscoveryText"},
	130: {"host.TestEventStorm", "multipath.TestStorm"},
	131: {"badinput.TestForgedMessages", "badinput.TestNoOracle", "badinput.TestDuplicateRequests"},
	132: {"badinput.TestUnacknowledgedReads", "target.TestLeaseDoesNotWaitForThePeer", "target.TestPauseDoesNotWaitForThePeer"},
	133: {"badinput.TestUndeliveredWriteData", "fabric.TestReadsBeforeAdmission"},
	134: {"fabric.TestReadsAreShared", "shard.TestAllowancesAreEqual"},
	135: {"target.TestImpostorHasNoShare"},
	136: {"target.TestOneHostTakesQueueMemory", "target.TestQueueMemoryIsShared"},
	137: {"badinput.TestFloodsBeside", "cm.TestFloodIsNotLookedAt", "cm.TestUnknownDREQs", "cm.TestHostsReturnTogether"},
	138: {"inuse.TestFindMount", "inuse.FuzzFindMount"},
	139: {"life.FuzzDecode", "sealed.FuzzOpen"},
	140: {"discovery.TestFartherAway"},
	141: {"config.TestParseExport", "nvmeof.TestParseHostIdentity", "nvmeof.FuzzHostIdentity"},
	142: {"cm.TestNeighbours", "cm.TestHostsAwayAreRemembered", "cm.TestSiteReturns"},
	143: {"host.TestLongANALog"},
	144: {"namedfile.TestKilled", "namedfile.TestReplacePowerFails", "control.TestNotPutInPlace"},
	145: {"host.TestHungNamespace"},
	146: {"rc.TestStoreIsShared", "rc.TestStoreIsSharedByPeers"},
	147: {"softroce.TestMissteeredPackets"},
	148: {"doctor.FuzzMachine", "doctor.TestLongLine"},
	149: {"nbd.TestClientsOfAHungDisk"},
	150: {"target.TestProtectionPowerFails", "target.TestProtectionSavedInDoubt", "target.TestProtectionReturns", "storage.TestSavedAndFailedOnce"},
	151: {"reservation.TestOneNameTakesAllPlaces"},
	152: {"target.TestIdentifierInTheNameOfAnother"},
	153: {"control.TestRemovedWhileHung", "control.TestLockedWhileHung"},
	154: {"control.TestRemovalsThatHang", "target.TestPauseDelaysNoChange", "target.TestReservationsHang", "target.TestStateHangs"},
	155: {"target.TestReservationsInTurns"},
	156: {"target.TestSilentNeighbours"},
	157: {"target.TestDiscoveryFromManyAddresses"},
	158: {"nbd.TestCloseWhileDiskHangs", "attachcommand.TestLeavesWhileDiskHangs", "attachcommand.TestOthersAreFlushed", "keeper.TestDiskHangsAtTheEnd"},
	159: {"memory.TestDeallocateHoldsWhatIsUsed", "memory.TestDeallocateAgain"},
	160: {"nbd.TestShareOfADisk", "nbd.TestHandshakeMakesRoom"},
	161: {"target.TestUnregister", "target.TestClearReservation", "target.TestUnregisterNotSaved"},
	162: {"target.TestRegisteredComesBack", "target.TestIdentifierWhileTheNamespaceIsAway", "target.TestIdentifierWhileItIsRegistered"},
	163: {"target.TestOthersShutDownWhileStoreHangs", "target.TestFlushesEndWithTheirHosts"},
	164: {"softroce.TestOpenRefusesMoved", "softroce.TestAdoptRefuses", "softroce.FuzzMoved", "udp.TestAdoptRefuses", "rc.TestRestoreRefuses", "rc.FuzzRestore",
		"cm.TestCheckRefuses", "cm.FuzzCheck"},
}

// managed lists the directories that serve something besides storage and so have the tests of row 115: the management
// interface of a target, its console, that of a host's connections, metrics, and CSI.
var managed = []string{"nvmeof/control/", "nvmeof/metrics/", "cmd/nvmeof/internal/connections/", "cmd/nvmeof/internal/console/", "cmd/nvmeof-csi/internal/driver/"}

func isManaged(path string) bool {
	return slices.ContainsFunc(managed, func(dir string) bool { return strings.HasPrefix(path, dir) })
}

var update = flag.Bool("update", false, "write the catalogue's column of tests")

var (
	catalogued = regexp.MustCompile(`^(\| (\d+) \| [^|]* \| [^|]* \|)[^|]*\|$`)

	rowsWords = regexp.MustCompile(`\b[Rr]ows? \d+(?:(?:,| and|, and| to) \d+)*`)
	rowsParts = regexp.MustCompile(`(\d+)(?: to (\d+))?`)

	// caseNames matches the names of cases in the tests' tables, "47 offset above the capsule's data".
	caseNames = regexp.MustCompile(`^"(\d{1,3})(?:"$| [^0-9])`)
)

// rowsIn returns the rows that a text names: "row 47", "rows 47 to 49, 51 and 61".
func rowsIn(text string) (rows []int) {
	for _, words := range rowsWords.FindAllString(strings.Join(strings.Fields(text), " "), -1) {
		for _, m := range rowsParts.FindAllStringSubmatch(words, -1) {
			first, _ := strconv.Atoi(m[1])
			last := first
			if m[2] != "" {
				last, _ = strconv.Atoi(m[2])
			}
			for row := first; row <= last; row++ {
				rows = append(rows, row)
			}
		}
	}
	return rows
}

// isTest reports whether go test runs the function by default: a test, or a fuzz target with its seeds.
func isTest(f *ast.FuncDecl) bool {
	return f.Recv == nil && (strings.HasPrefix(f.Name.Name, "Test") || strings.HasPrefix(f.Name.Name, "Fuzz"))
}

// indexOf returns the tests of a file by the rows that the comment above them or a comment in them names. Rows named
// elsewhere do not count.
func indexOf(file *ast.File) map[int][]string {
	index := map[int][]string{}
	for _, d := range file.Decls {
		f, ok := d.(*ast.FuncDecl)
		if !ok || !isTest(f) {
			continue
		}
		var text []string
		for _, c := range file.Comments {
			if c == f.Doc || c.Pos() > f.Pos() && c.End() < f.End() {
				text = append(text, c.Text())
			}
		}
		for _, t := range text {
			for _, row := range rowsIn(t) {
				if !slices.Contains(index[row], f.Name.Name) {
					index[row] = append(index[row], f.Name.Name)
				}
			}
		}
	}
	return index
}

// casesOf returns the tests of a file by the rows with which the names of their cases begin.
func casesOf(file *ast.File) map[int][]string {
	index := map[int][]string{}
	for _, d := range file.Decls {
		f, ok := d.(*ast.FuncDecl)
		if !ok || !isTest(f) {
			continue
		}
		ast.Inspect(f, func(n ast.Node) bool {
			if s, ok := n.(*ast.BasicLit); ok && s.Kind == token.STRING {
				if m := caseNames.FindStringSubmatch(s.Value); m != nil {
					row, _ := strconv.Atoi(m[1])
					if !slices.Contains(index[row], f.Name.Name) {
						index[row] = append(index[row], f.Name.Name)
					}
				}
			}
			return true
		})
	}
	return index
}

// cases lists the packages below softroce's internal folder whose tests name their cases by rows. Numbers in the strings
// of other packages, such as nvmeof/nbd/internal/wire, are no rows.
var cases = []string{"badinput", "rc", "wire", "cm"}

// namesCases reports whether the tests of a file name their cases by rows.
func namesCases(path string) bool {
	above, pkg := filepath.Split(filepath.Dir(path))
	return strings.HasSuffix(above, "rdmatransport/softroce/internal/") && slices.Contains(cases, pkg)
}

// goFiles parses the Go files of the repository for which want returns true, and calls use with each.
func goFiles(t *testing.T, want func(path string, text []byte) bool, use func(path string, file *ast.File)) {
	t.Helper()
	const root = "../.."
	err := filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case d.IsDir() && (d.Name() == ".git" || d.Name() == "testdata"):
			return filepath.SkipDir
		case d.IsDir() || !strings.HasSuffix(path, ".go"):
			return nil
		}
		text, err := os.ReadFile(path)
		if err != nil || !want(strings.TrimPrefix(path, root+"/"), text) {
			return err
		}
		file, err := parser.ParseFile(token.NewFileSet(), path, text, parser.ParseComments|parser.SkipObjectResolution)
		if err == nil {
			use(strings.TrimPrefix(path, root+"/"), file)
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
}

// rowIndex returns the tests of the repository by the rows that they cite. It reports citations of rows and entries of
// the lists above that do not exist.
func rowIndex(t *testing.T) map[int][]string {
	t.Helper()
	index, there := map[int][]string{}, map[string]bool{}
	add := func(row int, test string) {
		if !slices.Contains(index[row], test) {
			index[row] = append(index[row], test)
		}
	}
	isTestFile := func(path string, _ []byte) bool { return strings.HasSuffix(path, "_test.go") }
	goFiles(t, isTestFile, func(path string, file *ast.File) {
		pkg := filepath.Base(filepath.Dir(path)) // directories are moved more often than packages are renamed
		for _, d := range file.Decls {
			if f, ok := d.(*ast.FuncDecl); ok && isTest(f) {
				there[pkg+"."+f.Name.Name] = true
			}
		}
		for row, tests := range indexOf(file) {
			if row < 1 || row > lastCited {
				t.Errorf("%s: %v cites row %d, which the catalogue does not have", path, tests, row)
			}
			for _, name := range tests {
				add(row, pkg+"."+name)
			}
		}
		if !namesCases(path) {
			return
		}
		for row, tests := range casesOf(file) {
			for _, name := range tests {
				if row >= 1 && row <= lastCited { // else another number
					add(row, pkg+"."+name)
				}
			}
		}
	})
	for row, tests := range further {
		for _, test := range tests {
			if !there[test] {
				t.Errorf("row %d is said to be proven by %s, which is not there", row, test)
			}
			add(row, test)
		}
	}
	return index
}

// TestEveryRowHasATest checks the catalogue against the tests: each row that a comment cites must exist, and each row
// must have a test or be in the list above. With -update it writes the catalogue's column of tests.
func TestEveryRowHasATest(t *testing.T) {
	page, err := os.ReadFile(catalogue)
	if err != nil {
		t.Fatal(err)
	}
	index := rowIndex(t)
	written := strings.Split(string(page), "\n")
	next := 1
	for i, line := range written {
		m := catalogued.FindStringSubmatch(line)
		if m == nil {
			continue
		}
		if m[2] != strconv.Itoa(next) {
			t.Errorf("%s: row %s is where row %d should be", catalogue, m[2], next)
		}
		tests, why := index[next], untestable[next]
		slices.Sort(tests)
		if (why == "") == (len(tests) == 0) {
			t.Errorf("row %d has tests %v, and the reason to have none is %q", next, tests, why)
		}
		written[i] = m[1] + " " + strings.Join(tests, ", ") + why + " |"
		next++
	}
	if next != lastRow+1 {
		t.Errorf("%s ends before row %d", catalogue, next)
	}
	want := strings.Join(written, "\n")
	switch {
	case want == string(page):
	case *update:
		if err := os.WriteFile(catalogue, []byte(want), 0o644); err != nil {
			t.Fatal(err)
		}
	default:
		t.Errorf("%s has not the tests that there are: go test ./test/badinput -run TestEveryRowHasATest -update", catalogue)
	}
}

// TestNothingElseListens: only the management interfaces open a port or socket through which the program is managed.
func TestNothingElseListens(t *testing.T) {
	can := regexp.MustCompile("[\"`](?:net[\"`]|net/http|net/rpc|google\\.golang\\.org/grpc)") // judged by its imports
	isOther := func(path string, text []byte) bool {
		return !strings.HasSuffix(path, "_test.go") && !strings.HasPrefix(path, "test/") && !isManaged(path) && can.Match(text)
	}
	goFiles(t, isOther, func(path string, file *ast.File) {
		for _, i := range file.Imports {
			name, _ := strconv.Unquote(i.Path.Value)
			if name == "net/http" || name == "net/rpc" || strings.HasPrefix(name, "google.golang.org/grpc") {
				t.Errorf("%s imports %s: only %v serve, with the tests of row 115", path, name, managed)
			}
		}
		ast.Inspect(file, func(n ast.Node) bool {
			if s, ok := n.(*ast.SelectorExpr); ok {
				if x, ok := s.X.(*ast.Ident); ok && x.Name == "net" && (s.Sel.Name == "Listen" || s.Sel.Name == "ListenUnix" || s.Sel.Name == "ListenTCP") {
					t.Errorf("%s uses net.%s: only %v serve, with the tests of row 115", path, s.Sel.Name, managed)
				}
			}
			return true
		})
	})
}

// TestRowsAreFound checks what the index finds and what it does not.
func TestRowsAreFound(t *testing.T) {
	const text = `package x
// Row 1 is named by no test.

// TestA is row 47: something.
func TestA() {}
// TestB is rows 47 to
// 49, 51 and 61, row 5.
func TestB() { f() /* row 62 */ }
// helper is row 90.
func helper() {}
// TestC has rows in a table, 3 columns.
func TestC() {}
`
	file, err := parser.ParseFile(token.NewFileSet(), "x_test.go", text, parser.ParseComments)
	if err != nil {
		t.Fatal(err)
	}
	got := indexOf(file)
	for row, tests := range map[int]int{47: 2, 48: 1, 49: 1, 51: 1, 61: 1, 5: 1, 62: 1} {
		if len(got[row]) != tests {
			t.Errorf("row %d has tests %v, want %d", row, got[row], tests)
		}
	}
	if len(got) != 7 {
		t.Errorf("rows %v", got)
	}
}
