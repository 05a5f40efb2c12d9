package tidy

import (
	"go/ast"
	"go/token"
	"regexp"
)

// foreignWords are words of comments that have the form of names and are none.
var foreignWords = []string{"mDNS", "mW"}

var (
	wordPattern = regexp.MustCompile(`[A-Za-z_][A-Za-z0-9_]*`)
	mixedCaps   = regexp.MustCompile(`^[a-z]+[A-Z]`) // of what is not exported
)

// staleNames finds words of comments in mixed capitals that no Go file of the repository has as a
// name or in a string: mostly what something was called before.
func staleNames(sources []*source) (findings []string) {
	known := names{}
	for _, w := range foreignWords {
		known[w] = true
	}
	for _, s := range sources {
		ast.Inspect(s.file, func(n ast.Node) bool {
			switch n := n.(type) {
			case *ast.Ident:
				known[n.Name] = true
			case *ast.BasicLit:
				if n.Kind == token.STRING {
					for _, w := range wordPattern.FindAllString(n.Value, -1) {
						known[w] = true
					}
				}
			}
			return true
		})
	}
	for _, s := range sources {
		for _, group := range s.file.Comments {
			for _, c := range group.List {
				for _, w := range wordPattern.FindAllString(c.Text, -1) {
					if mixedCaps.MatchString(w) && !known[w] {
						findings = append(findings, s.finding(c.Pos(), "the comment has %s, which nothing is called", w))
					}
				}
			}
		}
	}
	return findings
}
