package main

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"syscall"
	"testing"
)

// A documented line is a command line of a document, and how it is tested.
type documented struct {
	line string // without the remark after it

	// If the line is run, instead contains pairs of a text in the document and its replacement in the test. stays: the
	// command stays until its output contains this text; otherwise it ends with code. wants: texts of the output.
	instead []string
	stays   string
	killed  bool // a command that stays may end otherwise than by the signal of the test
	code    int
	wants   []string

	// If it is not, by names the test that runs it, such as "test/interop TestLinuxHost", or ".ci/run".
	by string

	// For lines of the system that do not use the program: why no test runs them.
	why string
}

// documents maps all documents with command lines to their tables.
var documents = map[string][]documented{
	"README.md":              readme,
	"deploy/README.md":       deployed,
	"docs/administration.md": administration,
	"docs/authentication.md": authentication,
	"docs/benchmark.md":      benchmark,
	"docs/console.md":        consolePage,
	"docs/csi.md":            csiPage,
	"docs/gateways.md":       gatewaysPage,
	"docs/host.md":           hostSide,
	"docs/monitoring.md":     monitoring,
	"docs/testing.md":        suites,
	"docs/verbs.md":          verbsPage,
}

// TestEveryDocument checks that each command line in a document has an entry, and that each link between documents
// leads to a file.
func TestEveryDocument(t *testing.T) {
	const root = "../../"
	paths, err := filepath.Glob(root + "docs/*.md")
	if err != nil || len(paths) == 0 {
		t.Fatalf("%q, %v", paths, err)
	}
	top, err := filepath.Glob(root + "*.md")
	if err != nil {
		t.Fatal(err)
	}
	for _, path := range slices.Concat(paths, top, []string{root + "deploy/README.md"}) {
		wantDocumented(t, path, documents[strings.TrimPrefix(path, root)])
		wantLinks(t, path)
	}
}

// wantLinks checks that the files exist to which a document links.
func wantLinks(t *testing.T, path string) {
	t.Helper()
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	for _, m := range regexp.MustCompile(`\]\(([^)#:]+)[^):]*\)`).FindAllStringSubmatch(string(text), -1) {
		if _, err := os.Stat(filepath.Join(filepath.Dir(path), m[1])); err != nil {
			t.Errorf("%s links to what is not there: %v", path, err)
		}
	}
}

// doDocumented follows a document, in its order.
func (r *reader) doDocumented(lines []documented) {
	r.t.Helper()
	for _, d := range lines {
		if d.by == "" && d.why == "" {
			r.follow(d)
		}
	}
}

// commandLines returns the indented lines of a document, except those between fences, with continuation lines joined
// and without remarks.
func commandLines(t *testing.T, path string) (all []string) {
	t.Helper()
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	more, fenced := false, false
	for line := range strings.SplitSeq(string(text), "\n") {
		if strings.HasPrefix(line, "```") {
			fenced = !fenced
		}
		command, indented := strings.CutPrefix(line, "    ")
		if !indented || fenced {
			continue
		}
		command = strings.TrimSpace(regexp.MustCompile(`\s# .*$`).ReplaceAllString(command, ""))
		head, goesOn := strings.CutSuffix(command, `\`)
		if more {
			all[len(all)-1] += " " + strings.TrimSpace(head)
		} else {
			all = append(all, strings.TrimSpace(head))
		}
		more = goesOn
	}
	return all
}

// wantDocumented checks that a table has the lines of a document, in their order: a new line needs an entry, and a
// changed line a changed one.
func wantDocumented(t *testing.T, path string, table []documented) {
	t.Helper()
	lines := commandLines(t, path)
	for i, line := range lines {
		if i >= len(table) || table[i].line != line {
			t.Fatalf("%s: command line %d, %q, has no entry in the test's table where it belongs: say there how it is run, or by which test", path, i+1, line)
		}
	}
	if len(table) > len(lines) {
		t.Fatalf("%s has no line %q any more", path, table[len(lines)].line)
	}
	for _, d := range table {
		if d.by != "" {
			wantRunBy(t, d)
		}
	}
}

// wantRunBy checks that the test exists that is said to run a line.
func wantRunBy(t *testing.T, d documented) {
	t.Helper()
	dir, test, _ := strings.Cut(d.by, " ")
	if d.by == ".ci/run" {
		if text, err := os.ReadFile("../../.ci/run"); err != nil || !strings.Contains(string(text), d.line) {
			t.Errorf("%s is said to run %q, which is not so, %v", d.by, d.line, err)
		}
		return
	}
	files, err := filepath.Glob(filepath.Join("../..", dir, "*_test.go"))
	if err != nil || !slices.ContainsFunc(files, func(f string) bool {
		text, _ := os.ReadFile(f)
		return strings.Contains(string(text), "\nfunc "+test+"(t *testing.T)")
	}) {
		t.Errorf("%q is said to be run by %s of %s, which is not there, %v", d.line, test, dir, err)
	}
}

// A reader follows a document, as a user with nothing but the program.
type reader struct {
	t      *testing.T
	dir    string   // current directory
	env    []string // in addition to the test's
	script string   // a script that starts the program
	words  *strings.Replacer
}

// newReader returns a reader that replaces the addresses of documents by some of 127/8.
func newReader(t *testing.T, instead ...string) *reader {
	t.Helper()
	if testing.Short() {
		t.Skip("follows a document: not with -short")
	}
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	bin := t.TempDir()
	script := fmt.Sprintf("#!/bin/sh\n%s=1 exec '%s' \"$@\"\n", asProgram, self)
	writeProgram(t, filepath.Join(bin, "nvmeof"), script)
	dir := t.TempDir()
	setenv(t, "NVMEOF_SOCKET", filepath.Join(dir, "s"))
	r := &reader{t: t, dir: dir, script: script, words: strings.NewReplacer(append(instead, "DIR", dir)...)}
	r.env = append(r.env, "PATH="+bin+":"+os.Getenv("PATH"))
	for name, value := range environment(t) {
		r.env = append(r.env, name+"="+value)
	}
	return r
}

// writeProgram writes an executable file. No other test forks meanwhile: a process that inherits the file open for
// writing, until it executes another program, would prevent its execution.
func writeProgram(t *testing.T, name, text string) {
	t.Helper()
	syscall.ForkLock.RLock()
	defer syscall.ForkLock.RUnlock()
	if err := os.WriteFile(name, []byte(text), 0o755); err != nil {
		t.Fatal(err)
	}
}

// follow runs a line.
func (r *reader) follow(d documented) {
	r.t.Helper()
	line := r.words.Replace(strings.NewReplacer(d.instead...).Replace(d.line))
	ctx, stop := context.WithCancel(context.Background())
	cmd := program(ctx, r.t)
	cmd.Path, cmd.Args = "/bin/sh", []string{"sh", "-c", "umask 077; exec 3>&-; " + line}
	if d.stays != "" { // the shell is replaced by the command that receives the signal
		cmd.Args[2] = "umask 077; exec " + strings.TrimSuffix(line, "&")
	}
	cmd.Dir = r.dir
	cmd.Env = append(slices.DeleteFunc(os.Environ(), func(s string) bool { return strings.HasPrefix(s, asProgram) }), r.env...)
	out := newOutput()
	cmd.Stdout, cmd.Stderr = out, out
	if err := cmd.Start(); err != nil {
		r.t.Fatal(err)
	}
	ended := make(chan error, 1)
	go func() { ended <- ending(cmd.Wait()) }()
	if d.stays != "" {
		out.await(r.t, r.words.Replace(d.stays))
		r.t.Cleanup(func() {
			stop()
			if err := <-ended; !d.killed {
				(outcome{out: out.String(), err: err}).wantOneOf(r.t, line, 0, exitInterrupted)
			}
		})
		return
	}
	defer stop()
	err := <-ended
	r.t.Logf("%s", line)
	var wants []string
	for _, w := range d.wants {
		wants = append(wants, r.words.Replace(w))
	}
	(outcome{out: out.String(), err: err}).want(r.t, d.code, wants...)
}

// wantOneOf checks that a command that stayed has ended with one of the codes.
func (o outcome) wantOneOf(t *testing.T, line string, codes ...int) {
	t.Helper()
	if !slices.Contains(codes, o.code()) {
		t.Errorf("%s ended with %v:\n%s", line, o.err, o.out)
	}
}

// haveTool skips what a machine cannot do because it lacks a tool.
func haveTool(t *testing.T, names ...string) {
	t.Helper()
	for _, name := range names {
		if _, err := exec.LookPath(name); err != nil {
			t.Skip(err)
		}
	}
}
