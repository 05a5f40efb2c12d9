package main

import (
	"errors"
	"os"
	"path/filepath"
	"reflect"
	"regexp"
	"strings"
	"testing"
)

func TestFind(t *testing.T) {
	root := t.TempDir()
	for name, text := range map[string]string{
		"b/one_test.go":        "package b\nfunc FuzzB(f *testing.F) {}\nfunc FuzzA(g *testing.F) {}\nfunc TestA(t *testing.T) {}\n",
		"a/deep/x_test.go":     "package deep\nfunc FuzzDeep(f *testing.F) {}\n",
		"a/deep/code.go":       "package deep\nfunc FuzzNot(f *testing.F) {}\n",
		".git/x_test.go":       "package x\nfunc FuzzHidden(f *testing.F) {}\n",
		"a/testdata/x_test.go": "package x\nfunc FuzzData(f *testing.F) {}\n",
	} {
		file := filepath.Join(root, name)
		if err := os.MkdirAll(filepath.Dir(file), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	for match, want := range map[string][]target{
		"":       {{"a/deep", []string{"FuzzDeep"}}, {"b", []string{"FuzzA", "FuzzB"}}},
		"^FuzzB": {{"b", []string{"FuzzB"}}},
		"None":   nil,
	} {
		found, err := find(root, regexp.MustCompile(match))
		for i := range found {
			rel, err := filepath.Rel(root, found[i].dir)
			if err != nil {
				t.Fatal(err)
			}
			found[i].dir = rel
		}
		if err != nil || !reflect.DeepEqual(found, want) {
			t.Errorf("%q: %v, want %v: %v", match, found, want, err)
		}
	}
}

func TestJudge(t *testing.T) {
	const line = "fuzz: elapsed: 2s, execs: 4711 (2355/sec), new interesting: 12 (total: 30)\n"
	failed := errors.New("exit status 1")
	for _, c := range []struct {
		name, said string
		err        error
		fails      bool
	}{
		{"found nothing", line + "PASS\n", nil, false},
		{"ended by its own time", line + "--- FAIL: FuzzX (2.0s)\n    context deadline exceeded\nFAIL\n", failed, false},
		{"a failing input", line + "--- FAIL: FuzzX (1.0s)\n    x_test.go:12: differs\n    Failing input written to testdata/fuzz/FuzzX/1\n", failed, true},
		{"a failing input, and its time", line + "    x_test.go:12: context deadline exceeded\n", failed, true},
		{"a crash", "panic: runtime error\n", failed, true},
	} {
		r := judge("p FuzzX", c.said, c.err)
		if (r.err != nil) != c.fails {
			t.Errorf("%s: %v", c.name, r.err)
		}
		if strings.Contains(c.said, "execs") && (r.runs != "4711" || r.found != "12") {
			t.Errorf("%s: %s runs, %s new", c.name, r.runs, r.found)
		}
	}
}
