package tidy

import (
	"bytes"
	"go/ast"
	"go/format"
	"slices"
	"strings"
	"unicode"
)

// Limits in lines.
const (
	maxFile     = 600
	maxFunction = 60
)

// unformatted finds files that gofmt would change.
func unformatted(s *source) []string {
	var formatted bytes.Buffer
	if err := format.Node(&formatted, s.fset, s.file); err != nil || !bytes.Equal(formatted.Bytes(), s.text) {
		return []string{s.finding(s.file.FileStart, "not formatted as gofmt does")}
	}
	return nil
}

// oversized finds files and functions that are too long.
func oversized(s *source) (findings []string) {
	if n := bytes.Count(s.text, []byte("\n")); n > maxFile {
		findings = append(findings, s.finding(s.file.FileStart, "file has %d lines, at most %d", n, maxFile))
	}
	for _, decl := range s.file.Decls {
		f, ok := decl.(*ast.FuncDecl)
		if !ok || f.Body == nil || isDispatch(f.Body) {
			continue
		}
		if n := s.line(f.End()) - s.line(f.Pos()) + 1 - s.tableLines(f.Body); n > maxFunction {
			findings = append(findings, s.finding(f.Pos(), "func %s has %d lines, at most %d", f.Name.Name, n, maxFunction))
		}
	}
	return findings
}

// tableLines returns the number of lines of tables within a function: literals of slices, arrays and maps, which are
// read a row at a time.
func (s *source) tableLines(body *ast.BlockStmt) (n int) {
	ast.Inspect(body, func(node ast.Node) bool {
		lit, ok := node.(*ast.CompositeLit)
		if !ok {
			return true
		}
		switch lit.Type.(type) {
		case *ast.ArrayType, *ast.MapType:
			n += s.line(lit.End()) - s.line(lit.Pos())
			return false
		}
		return true
	})
	return n
}

// isDispatch reports whether a function consists of one switch, possibly with a return after it. Such a table may be
// long.
func isDispatch(body *ast.BlockStmt) bool {
	list := body.List
	if n := len(list); n == 2 {
		if _, ok := list[1].(*ast.ReturnStmt); ok {
			list = list[:1]
		}
	}
	if len(list) != 1 {
		return false
	}
	switch list[0].(type) {
	case *ast.SwitchStmt, *ast.TypeSwitchStmt:
		return true
	}
	return false
}

// vagueNames lists package names that say nothing about the package.
var vagueNames = []string{"util", "utils", "common", "types", "api", "helpers", "helper", "misc", "shared", "base"}

// badNames finds packages with vague names, and init functions, which run without being called.
func badNames(s *source) (findings []string) {
	name := strings.TrimSuffix(s.file.Name.Name, "_test")
	folder := s.dir()[strings.LastIndex(s.dir(), "/")+1:]
	if slices.Contains(vagueNames, name) || slices.Contains(vagueNames, folder) {
		findings = append(findings, s.finding(s.file.Package, "package is called %s, which says nothing", name))
	}
	for _, decl := range s.file.Decls {
		if f, ok := decl.(*ast.FuncDecl); ok && f.Recv == nil && f.Name.Name == "init" {
			findings = append(findings, s.finding(f.Pos(), "func init"))
		}
	}
	return findings
}

// replacedWords lists words of identifiers for which docs/glossary.md has a noun or Go a usual verb, with the
// replacement.
var replacedWords = map[string]string{
	"datum":    "packet",
	"patience": "timeout",
	"knock":    "connect",
	"tell":     "report, notify or print",
	"tells":    "report, notify or print",
	"told":     "reported, notified or printed",
}

// replacedTypes lists names that no type may have, because they have several meanings.
var replacedTypes = map[string]string{"place": "the noun for what is there: a shard, a file, an address"}

// replacedNames finds identifiers with replaced words.
func replacedNames(s *source) (findings []string) {
	ast.Inspect(s.file, func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.Ident:
			for _, word := range words(n.Name) {
				if better, found := replacedWords[word]; found {
					findings = append(findings, s.finding(n.Pos(), "%s: the glossary has %s", n.Name, better))
				}
			}
		case *ast.TypeSpec:
			if better, found := replacedTypes[strings.ToLower(n.Name.Name)]; found {
				findings = append(findings, s.finding(n.Pos(), "type %s: the glossary has %s", n.Name.Name, better))
			}
		}
		return true
	})
	return findings
}

// words returns the words of an identifier in lower case: a word begins at a capital letter.
func words(name string) []string {
	var b strings.Builder
	for _, r := range name {
		if unicode.IsUpper(r) {
			b.WriteByte(' ')
		}
		b.WriteRune(unicode.ToLower(r))
	}
	return strings.Fields(b.String())
}

// undocumented finds packages without a package comment in a file that is not a test.
func undocumented(sources []*source) (findings []string) {
	documented := map[string]bool{}
	first := map[string]*source{}
	for _, s := range sources {
		if s.isTest() {
			continue
		}
		if first[s.dir()] == nil {
			first[s.dir()] = s
		}
		doc := strings.TrimSpace(s.file.Doc.Text())
		if strings.HasPrefix(doc, "Package "+s.file.Name.Name+" ") || strings.HasPrefix(doc, "Command ") {
			documented[s.dir()] = true
		}
	}
	for dir, s := range first {
		if !documented[dir] {
			findings = append(findings, s.finding(s.file.Package, "package %s has no comment that begins with its name", s.file.Name.Name))
		}
	}
	slices.Sort(findings)
	return findings
}
