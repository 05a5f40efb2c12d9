package badinput

import (
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
)

// A span is rows of the catalogue of bad input, both ends included.
type span struct{ first, last int }

// needed are the rows that a test must name: commands and state, SGLs and data,
// queueing, namespaces, admin, discovery, the host against a hostile target,
// authentication, exhaustion.
var needed = []span{{33, 116}}

const lastRow = 116

// untestable are rows that no test can have, and why.
var untestable = map[int]string{}

// managed are the folders that serve something besides storage, the management
// interface of a target and that of a host's connections, and have the tests of row 115.
var managed = []string{"nvmeof/control/", "cmd/nvmeof/internal/connections/"}

func isManaged(path string) bool {
	return slices.ContainsFunc(managed, func(dir string) bool { return strings.HasPrefix(path, dir) })
}

var (
	rowsWords = regexp.MustCompile(`\b[Rr]ows? \d+(?:(?:,| and|, and| to) \d+)*`)
	rowsParts = regexp.MustCompile(`(\d+)(?: to (\d+))?`)
)

// rowsIn are the rows that a text names: "row 47", "rows 47 to 49, 51 and 61".
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

// isTest reports whether the tool runs the function, without being asked to: a test,
// or a fuzz target with its seeds.
func isTest(f *ast.FuncDecl) bool {
	return f.Recv == nil && (strings.HasPrefix(f.Name.Name, "Test") || strings.HasPrefix(f.Name.Name, "Fuzz"))
}

// indexOf returns the tests of a file by the rows that the comment above them or in
// them names. A row named elsewhere has no test for that.
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

// goFiles parses the Go files of the repository.
func goFiles(t *testing.T, use func(path string, file *ast.File)) {
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
		file, err := parser.ParseFile(token.NewFileSet(), path, nil, parser.ParseComments)
		if err == nil {
			use(strings.TrimPrefix(path, root+"/"), file)
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
}

// TestEveryRowHasATest is the index of the catalogue (-v shows it): each row that is
// needed is named by the comment of a test, or is in the list above.
func TestEveryRowHasATest(t *testing.T) {
	index := map[int][]string{}
	goFiles(t, func(path string, file *ast.File) {
		if !strings.HasSuffix(path, "_test.go") {
			return
		}
		for row, tests := range indexOf(file) {
			if row < 1 || row > lastRow {
				t.Errorf("%s: %v names row %d, there are %d", path, tests, row, lastRow)
			}
			for _, name := range tests {
				index[row] = append(index[row], filepath.Dir(path)+"."+name)
			}
		}
	})
	for _, s := range needed {
		for row := s.first; row <= s.last; row++ {
			why, listed := untestable[row]
			switch {
			case listed && len(index[row]) > 0:
				t.Errorf("row %d has tests (%v) and yet is listed: %s", row, index[row], why)
			case !listed && len(index[row]) == 0:
				t.Errorf("row %d has no test", row)
			}
		}
	}
	for row := 1; row <= lastRow; row++ {
		t.Logf("%3d %s%s", row, strings.Join(index[row], ", "), untestable[row])
	}
}

// TestNothingElseListens: nobody but the management interfaces opens a port or socket
// to be managed through.
func TestNothingElseListens(t *testing.T) {
	goFiles(t, func(path string, file *ast.File) {
		if strings.HasSuffix(path, "_test.go") || strings.HasPrefix(path, "test/") || isManaged(path) {
			return
		}
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

// TestRowsAreFound shows the index what it must find and what it must not.
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
