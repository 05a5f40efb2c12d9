package tidy

import (
	"fmt"
	"go/ast"
	"maps"
	"slices"
	"strings"
)

// suites lists the packages outside test that only tests import.
var suites = []string{"rdmatransport/rdmatest", "backend/backendtest"}

// goStatements counts the places where the files of each directory start a goroutine, without tests and packages for
// tests. It also finds places without a comment on the same line or the line above, which should say when the goroutine
// ends. A goroutine is started by a go statement, by a method Go, like that of sync.WaitGroup, or later by AfterFunc of
// package time or context.
func goStatements(sources []*source) (count map[string]int, findings []string) {
	count = map[string]int{}
	for _, s := range sources {
		if s.isTest() || slices.Contains(suites, s.dir()) || strings.HasPrefix(s.path, "test/") {
			continue
		}
		commented := commentedLines(s)
		ast.Inspect(s.file, func(n ast.Node) bool {
			if !startsGoroutine(n) {
				return true
			}
			count[s.dir()]++
			if line := s.line(n.Pos()); !commented[line] && !commented[line-1] {
				findings = append(findings, s.finding(n.Pos(), "starts a goroutine without a comment on when it ends"))
			}
			return true
		})
	}
	return count, findings
}

func startsGoroutine(n ast.Node) bool {
	switch n := n.(type) {
	case *ast.GoStmt:
		return true
	case *ast.CallExpr:
		s, ok := n.Fun.(*ast.SelectorExpr)
		return ok && (s.Sel.Name == "Go" || s.Sel.Name == "AfterFunc")
	}
	return false
}

// commentedLines returns the lines that contain a comment.
func commentedLines(s *source) map[int]bool {
	lines := map[int]bool{}
	for _, group := range s.file.Comments {
		for line := s.line(group.Pos()); line <= s.line(group.End()); line++ {
			lines[line] = true
		}
	}
	return lines
}

// differences compares the counted goroutines with the agreed numbers.
func differences(count, agreed map[string]int) (findings []string) {
	dirs := maps.Clone(count)
	maps.Copy(dirs, agreed)
	for _, dir := range slices.Sorted(maps.Keys(dirs)) {
		if count[dir] != agreed[dir] {
			findings = append(findings, fmt.Sprintf("%s starts goroutines in %d places, %d are agreed on", dir, count[dir], agreed[dir]))
		}
	}
	return findings
}
