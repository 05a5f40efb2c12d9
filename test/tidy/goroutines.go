package tidy

import (
	"fmt"
	"go/ast"
	"maps"
	"slices"
)

// suites are packages that only tests import.
var suites = []string{"rdmatransport/rdmatest", "backend/backendtest", "test/guest", "test/interop", "test/sim"}

// goStatements returns how many goroutines the files of each folder start, tests
// and what is imported only by tests aside, and finds those without a comment: on the same line, on the line above,
// or first in the function that they run, saying whose they are or when they end.
func goStatements(sources []*source) (count map[string]int, findings []string) {
	count = map[string]int{}
	for _, s := range sources {
		if s.isTest() || slices.Contains(suites, s.dir()) {
			continue
		}
		commented := commentedLines(s)
		ast.Inspect(s.file, func(n ast.Node) bool {
			g, ok := n.(*ast.GoStmt)
			if !ok {
				return true
			}
			count[s.dir()]++
			if line := s.line(g.Pos()); !commented[line] && !commented[line-1] {
				findings = append(findings, s.finding(g.Pos(), "go statement without a comment on when it ends"))
			}
			return true
		})
	}
	return count, findings
}

// commentedLines are the lines that have a comment or the end of one.
func commentedLines(s *source) map[int]bool {
	lines := map[int]bool{}
	for _, group := range s.file.Comments {
		for line := s.line(group.Pos()); line <= s.line(group.End()); line++ {
			lines[line] = true
		}
	}
	return lines
}

// differences compares the goroutines that there are with those agreed on.
func differences(count, agreed map[string]int) (findings []string) {
	dirs := maps.Clone(count)
	maps.Copy(dirs, agreed)
	for _, dir := range slices.Sorted(maps.Keys(dirs)) {
		if count[dir] != agreed[dir] {
			findings = append(findings, fmt.Sprintf("%s has %d go statements, %d are agreed on", dir, count[dir], agreed[dir]))
		}
	}
	return findings
}
