package main

import (
	"fmt"
	"go/ast"
	"go/types"
)

// embedded finds structures that embed a type of another package of the folder. Calls of the promoted methods do not
// show their package, and a lock of one package would become one of both.
func (t *tree) embedded() (findings []string) {
	for _, u := range t.packages {
		for _, file := range u.files {
			ast.Inspect(file, func(n ast.Node) bool {
				s, ok := n.(*ast.StructType)
				if !ok {
					return true
				}
				for _, f := range s.Fields.List {
					if len(f.Names) > 0 {
						continue
					}
					of := u.info.TypeOf(f.Type)
					if p, ok := of.(*types.Pointer); ok {
						of = p.Elem()
					}
					if named, ok := types.Unalias(of).(*types.Named); ok && t.lower(u, named.Obj()) {
						findings = append(findings, fmt.Sprintf("%v: %s is embedded", t.fset.Position(f.Pos()), named.Obj().Name()))
					}
				}
				return true
			})
		}
	}
	return findings
}
