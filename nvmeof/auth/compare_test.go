package auth

import (
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// TestComparisonTakesConstantTime is row 106 of the bad input catalogue for what no test of behavior shows: the sources
// compare bytes only with crypto/subtle.
func TestComparisonTakesConstantTime(t *testing.T) {
	files, err := filepath.Glob("*.go")
	if err != nil {
		t.Fatal(err)
	}
	constant := 0
	for _, name := range files {
		if strings.HasSuffix(name, "_test.go") {
			continue
		}
		text, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		file, err := parser.ParseFile(token.NewFileSet(), name, text, 0)
		if err != nil {
			t.Fatal(err)
		}
		ast.Inspect(file, func(n ast.Node) bool {
			s, ok := n.(*ast.SelectorExpr)
			if !ok {
				return true
			}
			switch x, _ := s.X.(*ast.Ident); {
			case x == nil:
			case x.Name == "subtle" && s.Sel.Name == "ConstantTimeCompare":
				constant++
			case (x.Name == "bytes" || x.Name == "slices") && (s.Sel.Name == "Equal" || s.Sel.Name == "Compare"),
				x.Name == "reflect" && s.Sel.Name == "DeepEqual":
				t.Errorf("%s uses %s.%s", name, x.Name, s.Sel.Name)
			}
			return true
		})
	}
	if constant == 0 {
		t.Error("nothing is compared in constant time")
	}
}
