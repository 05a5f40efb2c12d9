package tidy

import (
	"fmt"
	"go/ast"
	"maps"
	"slices"
)

// Limits of the number of methods of an exported type: of all methods, and of the exported ones. A type that needs more
// should be several types, or have types that are views of it.
const (
	maxMethods         = 60
	maxExportedMethods = 36
)

// agreedMethods lists the limits of types with more methods.
var agreedMethods = map[string]int{
	"rdmatransport/softroce/internal/rc.QP": 130, // both ends of a connection, requester and responder
	"nvmeof/control.Manager":                75,
	"nvmeof/target.Controller":              75,
}

// A methodCount is the number of a type's methods.
type methodCount struct{ all, exported int }

// crowded finds exported types with too many methods.
func crowded(sources []*source) (findings []string) {
	counts := map[string]methodCount{}
	for _, s := range sources {
		if s.isTest() {
			continue
		}
		for _, decl := range s.file.Decls {
			f, ok := decl.(*ast.FuncDecl)
			if !ok || f.Recv == nil || !ast.IsExported(receiver(f)) {
				continue
			}
			name := s.dir() + "." + receiver(f)
			n := counts[name]
			if n.all++; f.Name.IsExported() {
				n.exported++
			}
			counts[name] = n
		}
	}
	for _, name := range slices.Sorted(maps.Keys(counts)) {
		n, limit := counts[name], max(maxMethods, agreedMethods[name])
		if n.all > limit {
			findings = append(findings, fmt.Sprintf("%s has %d methods, at most %d", name, n.all, limit))
		}
		if n.exported > maxExportedMethods {
			findings = append(findings, fmt.Sprintf("%s has %d exported methods, at most %d", name, n.exported, maxExportedMethods))
		}
	}
	return findings
}

// receiver returns the name of a method's receiver type.
func receiver(f *ast.FuncDecl) string {
	t := f.Recv.List[0].Type
	for {
		switch x := t.(type) {
		case *ast.StarExpr:
			t = x.X
		case *ast.IndexExpr:
			t = x.X
		case *ast.IndexListExpr:
			t = x.X
		case *ast.Ident:
			return x.Name
		default:
			return ""
		}
	}
}
