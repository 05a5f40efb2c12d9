package exported

import (
	"bytes"
	"errors"
	"flag"
	"fmt"
	"go/importer"
	"go/token"
	"go/types"
	"io"
	"os"
	"os/exec"
	"regexp"
	"slices"
	"strings"
	"testing"
)

var update = flag.Bool("update", false, "write the file of the newest version in CHANGELOG.md: when that version is made")

const changelog = "../../CHANGELOG.md"

// public loads the packages that other modules can import, from the compiler's export data.
func public(t *testing.T) []*types.Package {
	t.Helper()
	cmd := exec.Command("go", "list", "-export", "-deps", "-f", "{{.ImportPath}}\t{{.Name}}\t{{.Export}}", "./...")
	cmd.Dir, cmd.Stderr = "../..", os.Stderr
	out, err := cmd.Output()
	if err != nil {
		t.Fatal(err)
	}
	exports := map[string]string{}
	var paths []string
	for line := range strings.Lines(string(out)) {
		f := strings.Split(strings.TrimSuffix(line, "\n"), "\t")
		exports[f[0]] = f[2]
		dir, ours := strings.CutPrefix(f[0], module+"/")
		if ours && f[1] != "main" && !strings.HasPrefix(dir, "test/") && !slices.Contains(strings.Split(dir, "/"), "internal") {
			paths = append(paths, f[0])
		}
	}
	from := importer.ForCompiler(token.NewFileSet(), "gc", func(path string) (io.ReadCloser, error) { return os.Open(exports[path]) })
	var packages []*types.Package
	for _, path := range slices.Sorted(slices.Values(paths)) {
		p, err := from.Import(path)
		if err != nil {
			t.Fatal(err)
		}
		packages = append(packages, p)
	}
	return packages
}

func described(t *testing.T) *describer {
	t.Helper()
	packages := public(t)
	d := &describer{aliases: map[string]string{}}
	for _, p := range packages {
		d.learn(p)
	}
	for _, p := range packages {
		d.describe(p)
	}
	slices.Sort(d.lines)
	return d
}

// newest returns the newest version in CHANGELOG.md, and the text on changes since.
func newest(t *testing.T) (version, unreleased string) {
	t.Helper()
	text, err := os.ReadFile(changelog)
	if err != nil {
		t.Fatal(err)
	}
	m := regexp.MustCompile(`(?s)\n## \[Unreleased\]\n(.*?)\n## \[(\d+\.\d+\.\d+)\]`).FindSubmatch(text)
	if m == nil {
		t.Fatal("CHANGELOG.md has no part Unreleased before that of a version")
	}
	return "v" + string(m[2]), string(m[1])
}

// TestAPI compares the public interface with that of the newest version. Additions are allowed, except a method of an
// interface.
func TestAPI(t *testing.T) {
	d := described(t)
	for _, leak := range slices.Compact(d.leaks) {
		t.Error(leak + ", which no program outside can name: make an alias for it")
	}
	version, unreleased := newest(t)
	name := version + ".txt"
	text := []byte(strings.Join(d.lines, "\n") + "\n")
	if *update {
		if err := os.WriteFile(name, text, 0o666); err != nil {
			t.Fatal(err)
		}
	}
	before, err := os.ReadFile(name)
	if errors.Is(err, os.ErrNotExist) {
		t.Fatalf("there is no interface of %s: go test ./test/exported -update", version)
	} else if err != nil {
		t.Fatal(err)
	}
	for _, finding := range unsaid(string(before), string(text), unreleased) {
		t.Error(finding)
	}
	t.Logf("%d lines, %d of %s", len(d.lines), bytes.Count(before, []byte("\n")), version)
}

// unsaid returns the lines of before that are missing in now and whose symbols the changelog does not name.
func unsaid(before, now, changes string) (findings []string) {
	kept := map[string]bool{}
	for line := range strings.Lines(now) {
		kept[line] = true
	}
	for line := range strings.Lines(before) {
		if s := symbol(line); !kept[line] && !strings.Contains(changes, "`"+s+"`") {
			findings = append(findings, fmt.Sprintf("incompatible, and CHANGELOG.md does not name `%s` under Unreleased: %s", s, strings.TrimSpace(line)))
		}
	}
	return findings
}

func TestUnsaid(t *testing.T) {
	const before = "pkg a/b, func F(int)\npkg a/b, method (*T) M()\npkg a/b, type I interface { A }\n"
	for _, c := range []struct {
		now, changes string
		want         int
	}{
		{before, "", 0},
		{before + "pkg a/b, func G()\n", "", 0},
		{"pkg a/b, func F(int64)\npkg a/b, method (*T) M()\npkg a/b, type I interface { A }\n", "", 1},
		{"pkg a/b, func F(int)\npkg a/b, method (*T) M()\npkg a/b, type I interface { A, B }\n", "- `b.I` has B.", 0},
		{"", "- `b.F` and `b.T.M` are gone.", 1},
	} {
		if got := unsaid(before, c.now, c.changes); len(got) != c.want {
			t.Errorf("now %q, changes %q: %q", c.now, c.changes, got)
		}
	}
}

func TestSymbol(t *testing.T) {
	for line, want := range map[string]string{
		"pkg a/b, const C b.T = 1":             "b.C",
		"pkg a/b, var V error":                 "b.V",
		"pkg a/b, func F(int) error":           "b.F",
		"pkg a/b, func F[T any](t T, f F) int": "b.F",
		"pkg a/b, type T struct":               "b.T",
		"pkg a/b, type T struct, F int":        "b.T.F",
		"pkg a/b, type I interface { A, B }":   "b.I",
		"pkg a/b, type I interface, A() int":   "b.I.A",
		"pkg a/b, method (*T) M(int, int)":     "b.T.M",
		"pkg a/b, method (T) M() (int, error)": "b.T.M",
		"pkg a/b, type T = c.D":                "b.T",
	} {
		if got := symbol(line); got != want {
			t.Errorf("%s is about %s, want %s", line, got, want)
		}
	}
}
