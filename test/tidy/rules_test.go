package tidy

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"go/types"
	"slices"
	"strings"
	"testing"
)

func parsed(t *testing.T, path, text string) *source {
	t.Helper()
	s, err := parse(path, []byte(text))
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// TestRules runs each rule on a source that breaks it, and on the same source corrected.
func TestRules(t *testing.T) {
	const local = `import "` + module + `/`
	long := strings.Repeat("\tprintln()\n", maxFunction)
	for _, c := range []struct {
		name, path, text string
		rule             func(*source) []string
		finds            string // text of the finding; "": none
	}{
		{"spaces", "capsule/a.go", "package capsule\n\nfunc  f() {}\n", unformatted, "gofmt"},
		{"formatted", "capsule/a.go", "package capsule\n\nfunc f() {}\n", unformatted, ""},

		{"capsule imports rdmatransport", "capsule/a.go", "package capsule\n" + local + "rdmatransport\"\n", wrongImports, "rdmatransport"},
		{"capsule imports x/sys", "capsule/a.go", "package capsule\nimport \"golang.org/x/sys/unix\"\n", wrongImports, "unix"},
		{"udp imports x/sys", "rdmatransport/softroce/internal/udp/a.go", "package udp\nimport \"golang.org/x/sys/unix\"\n", wrongImports, ""},
		{"rc imports wire", "rdmatransport/softroce/internal/rc/a.go", "package rc\n" + local + "rdmatransport/softroce/internal/wire\"\n", wrongImports, ""},
		{"rc imports cm", "rdmatransport/softroce/internal/rc/a.go", "package rc\n" + local + "rdmatransport/softroce/internal/cm\"\n", wrongImports, "internal/cm"},
		{"target imports softroce", "nvmeof/target/a.go", "package target\n" + local + "rdmatransport/softroce\"\n", wrongImports, "softroce"},
		{"its test does", "nvmeof/target/a_test.go", "package target\n" + local + "rdmatransport/softroce\"\n", wrongImports, ""},
		{"host imports target", "nvmeof/host/a.go", "package host\n" + local + "cmd/nvmeof\"\n", wrongImports, "cmd"},
		{"a test imports cmd", "nvmeof/host/a_test.go", "package host\n" + local + "cmd/nvmeof\"\n", wrongImports, "cmd"},
		{"backend imports capsule", "backend/file/a.go", "package file\n" + local + "capsule\"\n", wrongImports, "capsule"},
		{"cmd imports test", "cmd/nvmeof/a.go", "package main\n" + local + "test/bench\"\n", wrongImports, "test/bench"},
		{"its test does", "cmd/nvmeof/a_test.go", "package main\n" + local + "test/guest\"\n", wrongImports, ""},
		{"a program below test imports test", "test/bench/a.go", "package main\n" + local + "test/guest\"\n", wrongImports, ""},
		{"foreign module", "cmd/nvmeof/a.go", "package main\nimport \"example.org/x\"\n", wrongImports, "example.org"},
		{"module with a similar name", "cmd/nvmeof/a.go", "package main\nimport \"go.uber.org/zapper\"\n", wrongImports, "zapper"},
		{"new top folder", "pkg/a.go", "package pkg\n", wrongImports, "no row"},

		{"replaced word", "capsule/a.go", "package capsule\nvar readPatience int\n", replacedNames, "timeout"},
		{"replaced type", "capsule/a.go", "package capsule\ntype Place int\n", replacedNames, "type Place"},
		{"part of a word", "capsule/a.go", "package capsule\nvar foretell, replace int\n", replacedNames, ""},

		{"clock", "capsule/a.go", "package capsule\nimport \"time\"\nvar x = time.Now\n", impurities, "time.Now"},
		{"clock renamed", "capsule/a.go", "package capsule\nimport t \"time\"\nvar x = t.Sleep\n", impurities, "time.Sleep"},
		{"duration", "capsule/a.go", "package capsule\nimport \"time\"\nvar x = time.Second\n", impurities, ""},
		{"lock", "rdmatransport/softroce/internal/cm/a.go", "package cm\nimport \"sync\"\n", impurities, "sync"},
		{"atomics", "rdmatransport/softroce/internal/rc/a.go", "package rc\nimport \"sync/atomic\"\n", impurities, ""},
		{"wait group", "nvmeof/auth/a.go", "package auth\nfunc f() { w.Go(f) }\n", impurities, "goroutine"},
		{"goroutine", "rdmatransport/softroce/internal/wire/a.go", "package wire\nfunc f() { go f() }\n", impurities, "goroutine"},
		{"dice", "rdmatransport/softroce/internal/rc/a.go", "package rc\nimport \"math/rand/v2\"\nvar x = rand.IntN\n", impurities, "IntN"},
		{"seeded dice", "rdmatransport/softroce/internal/rc/a.go", "package rc\nimport \"math/rand/v2\"\nvar x = rand.New\n", impurities, ""},
		{"not pure", "nvmeof/internal/shard/a.go", "package shard\nimport \"time\"\nvar x = time.Now\n", impurities, ""},

		{"long file", "capsule/a.go", "package capsule\n" + strings.Repeat("\n", maxFile), oversized, "lines"},
		{"long function", "capsule/a.go", "package capsule\nfunc f() {\n" + long + "}\n", oversized, "func f"},
		{"dispatch", "capsule/a.go", "package capsule\nfunc f() {\n\tswitch {\n" + strings.Repeat("\tcase true:\n", maxFunction) + "\t}\n}\n", oversized, ""},
		{"table", "capsule/a.go", "package capsule\nfunc f() {\n\t_ = []int{\n" + strings.Repeat("\t\t1,\n", maxFunction) + "\t}\n}\n", oversized, ""},

		{"vague", "nvmeof/util/a.go", "package util\n", badNames, "util"},
		{"vague folder", "nvmeof/common/a.go", "package main\n", badNames, "says nothing"},
		{"init", "capsule/a.go", "package capsule\nfunc init() {}\n", badNames, "func init"},
		{"method init", "capsule/a.go", "package capsule\ntype r int\nfunc (r) init() {}\n", badNames, ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			wantFindings(t, c.finds, c.rule(parsed(t, c.path, c.text)))
		})
	}
}

// wantFindings wants one finding that contains a text, or none if the text is empty.
func wantFindings(t *testing.T, text string, findings []string) {
	t.Helper()
	switch {
	case text == "" && len(findings) > 0:
		t.Errorf("finds %q, want nothing", findings)
	case text != "" && (len(findings) != 1 || !strings.Contains(findings[0], text)):
		t.Errorf("finds %q, want one with %q", findings, text)
	}
}

func TestUndocumentedIsFound(t *testing.T) {
	bare := parsed(t, "a/a.go", "package a\n")
	wantFindings(t, "package a", undocumented([]*source{bare}))
	doc := parsed(t, "a/doc.go", "// Package a is.\npackage a\n")
	wantFindings(t, "", undocumented([]*source{bare, doc}))
	other := parsed(t, "a/doc.go", "// Here be dragons.\npackage a\n")
	wantFindings(t, "package a", undocumented([]*source{other}))
}

func TestCrowdedIsFound(t *testing.T) {
	methods := func(receiver, name string, n int) *source {
		text := "package a\n"
		for i := range n {
			text += fmt.Sprintf("func (%s) %s%d() {}\n", receiver, name, i)
		}
		return parsed(t, "a/a.go", text)
	}
	wantFindings(t, "a.T has 61 methods", crowded([]*source{methods("*T", "m", maxMethods), methods("T[K]", "n", 1)}))
	wantFindings(t, "a.T has 37 exported methods", crowded([]*source{methods("*T", "M", maxExportedMethods+1)}))
	wantFindings(t, "", crowded([]*source{methods("*T", "m", maxMethods), methods("u", "m", maxMethods+1)}))
}

func TestGoroutinesAreCounted(t *testing.T) {
	const text = `package a
func f() {
	go f() // ends
	// ends too
	go f()

	go f()

	t.wait.Go(f)

	time.AfterFunc(1, f)

	context.AfterFunc(ctx, f)

	Go(f)
	g.Gone(f)
}
`
	s := parsed(t, "a/a.go", text)
	count, findings := goStatements([]*source{s})
	for i, line := range []string{":7:", ":9:", ":11:", ":13:"} {
		if i >= len(findings) || !strings.Contains(findings[i], line) {
			t.Errorf("finds %q, want one at each of lines 7, 9, 11 and 13", findings)
		}
	}
	wantFindings(t, "6 places", differences(count, map[string]int{"a": 2}))
	wantFindings(t, "0 places", differences(map[string]int{}, map[string]int{"a": 2}))
	wantFindings(t, "", differences(count, map[string]int{"a": 6}))
	count, findings = goStatements([]*source{parsed(t, "test/bench/a.go", text), parsed(t, "a/a_test.go", text)})
	wantFindings(t, "", findings)
	wantFindings(t, "", differences(count, nil))
}

// TestNothingImportsTest: only tests and packages below test import packages below test.
func TestNothingImportsTest(t *testing.T) {
	for _, d := range directions {
		for _, local := range d.local {
			if (local == "test" || strings.HasPrefix(local, "test/")) && d.dir != "test" && !strings.HasPrefix(d.dir, "test/") {
				t.Errorf("%s may import %s", d.dir, local)
			}
		}
	}
}

func TestBrokenDocLinksAreFound(t *testing.T) {
	other := parsed(t, "b/b.go", "package b\nimport \"net/http\"\ntype T struct{ Field int }\nfunc (*T) Method() {}\n")
	for link, finds := range map[string]string{
		"[T]": "", "[*T]": "", "[local]": "", "[T.Method]": "", "[T.Field]": "", "[I.Call]": "",
		"[b]": "", "[b.T]": "", "[b.T.Method]": "", "[fmt.Stringer]": "", "[net/http.Server]": "",
		"[gone]": "[gone]", "[Gone]": "[Gone]", "[T.Gone]": "[T.Gone]", "[b.Gone]": "[b.Gone]", "[b.T.Gone]": "[b.T.Gone]",
		"[c]": "[c]", "[c.T]": "[c.T]", "[c/d.T]": "[c/d.T]",
		"[::]": "", "[0]": "", "[\"Flag fields\"]": "", "table[i]": "",
		"as in\n//\n//\tuse [flags]\n//\n// so": "",
	} {
		t.Run(link, func(t *testing.T) {
			s := parsed(t, "a/a.go", "package a\nimport \""+module+"/b\"\n\n// local is "+link+".\nvar local b.T\n"+
				"type T struct{ Field int }\nfunc (t T) Method() {}\ntype I interface { Call() }\n")
			wantFindings(t, finds, brokenLinks([]*source{s, other}))
		})
	}
}

func TestStaleNamesAreFound(t *testing.T) {
	for comment, finds := range map[string]string{
		"readAll reads":                  "readAll",
		"see readAll":                    "readAll",
		"readSome reads":                 "",
		"readSome, as someWhere":         "", // in another directory
		"see theField":                   "", // of another language
		"ReadAll of a package elsewhere": "",
		"multicast mDNS":                 "",
	} {
		t.Run(comment, func(t *testing.T) {
			s := parsed(t, "a/a.go", "package a\n// "+comment+".\nfunc readSome() {}\nconst json = `{\"theField\": 1}`\n")
			wantFindings(t, finds, staleNames([]*source{s, parsed(t, "b/b.go", "package b\nvar someWhere int\n")}))
		})
	}
}

func TestCallbacksAreFound(t *testing.T) {
	const low = "package low\ntype I interface{ M() }\nfunc call(i I) { i.M() }\n"
	const high = "package high\nimport \"" + module + "/low\"\ntype T struct{}\nfunc (*T) M() {}\nvar x low.I\n"
	for _, c := range []struct {
		name      string
		low, high string
		finds     string
	}{
		{"called and implemented above", low, high, "low.I"},
		{"not called", strings.Replace(low, "i.M()", "", 1), high, ""},
		{"implemented by a struct that has it", low, strings.Replace(high, "struct{}", "struct{ low.I }", 1), "low.I"},
		{"not implemented above", low, strings.Replace(high, "M()", "N()", 1), ""},
		{"implemented beside", low, "package high\ntype T struct{}\nfunc (*T) M() {}\n", ""},
		{"implemented where it is declared", low + "type T struct{}\nfunc (T) M() {}\n", "package high\nimport _ \"" + module + "/low\"\n", ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			fset := token.NewFileSet()
			known := map[string]*layer{}
			imports := importFunc(func(path string) (*types.Package, error) { return known[path].pkg, nil })
			var layers []*layer
			for _, p := range []struct{ path, text string }{{module + "/low", c.low}, {module + "/high", c.high}} {
				f, err := parser.ParseFile(fset, p.path, p.text, parser.SkipObjectResolution)
				if err != nil {
					t.Fatal(err)
				}
				l, err := newLayer(p.path, fset, []*ast.File{f}, imports, known)
				if err != nil {
					t.Fatal(err)
				}
				known[p.path] = l
				layers = append(layers, l)
			}
			wantFindings(t, c.finds, callbacks(layers))
		})
	}
}

func TestLocalPathsAreFound(t *testing.T) {
	for _, p := range localPaths {
		wantFindings(t, "a:2", localPathsIn("a", []byte("x\n"+p+"x")))
		wantFindings(t, "a:1", localPathsIn("a", []byte("\""+p)))
		wantFindings(t, "", localPathsIn("a", []byte("net"+p)))
	}
}

func TestRepositoryIsFound(t *testing.T) {
	var dirs []string
	for _, s := range sources(t) {
		dirs = append(dirs, s.dir())
	}
	for _, d := range []string{"capsule", "cmd/nvmeof", "rdmatransport/softroce/internal/rc", "backend", "nvmeof/target"} {
		if !slices.Contains(dirs, d) {
			t.Errorf("nothing of %s is checked", d)
		}
	}
}
