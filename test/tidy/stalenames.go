package tidy

import (
	"go/ast"
	"go/token"
	"iter"
)

// foreignWords lists words of comments that look like names and are not.
var foreignWords = []string{"mDNS", "mW"}

// wordsIn yields the words of a text that may be names.
func wordsIn(text string) iter.Seq[string] {
	isLetter := func(c byte) bool { return 'a' <= c|0x20 && c|0x20 <= 'z' || c == '_' }
	return func(yield func(string) bool) {
		for i := 0; i < len(text); i++ {
			if !isLetter(text[i]) {
				continue
			}
			start := i
			for i < len(text) && (isLetter(text[i]) || '0' <= text[i] && text[i] <= '9') {
				i++
			}
			if !yield(text[start:i]) {
				return
			}
		}
	}
}

// isMixedCaps reports whether a word begins with small letters and then a capital, like unexported names.
func isMixedCaps(word string) bool {
	small := 0
	for small < len(word) && 'a' <= word[small] && word[small] <= 'z' {
		small++
	}
	return small > 0 && small < len(word) && 'A' <= word[small] && word[small] <= 'Z'
}

// staleNames finds mixed-caps words in comments that are neither a name nor in a string of any Go file of the
// repository. Most are former names.
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
					for w := range wordsIn(n.Value) {
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
				for w := range wordsIn(c.Text) {
					if isMixedCaps(w) && !known[w] {
						findings = append(findings, s.finding(c.Pos(), "the comment has %s, which nothing is called", w))
					}
				}
			}
		}
	}
	return findings
}
