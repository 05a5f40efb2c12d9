package main

import (
	"go/ast"
	"go/types"
	"slices"
	"strings"
)

// references counts the references between rooms of the folder, and lists those that go back up.
func (t *tree) references() (up []string, all int) {
	seen := map[[2]string]bool{}
	note := func(from, to string, back bool) {
		if seen[[2]string{from, to}] {
			return
		}
		seen[[2]string{from, to}] = true
		all++
		if back {
			up = append(up, from+" -> "+to)
		}
	}
	t.functions(func(u *unit, decl *ast.FuncDecl, f *types.Func) {
		callsIn(decl, func(c *ast.CallExpr) {
			for _, g := range t.callees(u, c) {
				other := t.byPath[path(g)]
				switch {
				case other == nil || t.room(f) == t.room(g):
				case other != u:
					note(short(f), short(g), u.above[other.Path()])
				default:
					note(short(f), short(g), t.room(f) != path(f)) // the session calls the administration
				}
			}
		})
		t.handed(u, decl, func(to types.Object, what string) {
			note(strings.TrimPrefix(to.Pkg().Path(), module+"/")+"."+to.Name(), short(f)+" "+what, true)
		})
	})
	slices.Sort(up)
	return up, all
}

func path(f *types.Func) string {
	if f.Pkg() == nil {
		return ""
	}
	return f.Pkg().Path()
}

// handed finds functions that are passed to a package below, and assertions that a value of such a package has a type
// of this one.
func (t *tree) handed(u *unit, decl *ast.FuncDecl, note func(to types.Object, what string)) {
	ast.Inspect(decl, func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.CallExpr:
			for _, g := range t.callees(u, n) {
				if t.lower(u, g) && slices.ContainsFunc(n.Args, func(a ast.Expr) bool { return isFunc(u, a) }) {
					note(g, "as an argument")
				}
			}
		case *ast.AssignStmt:
			for i, l := range n.Lhs {
				s, ok := l.(*ast.SelectorExpr)
				if ok && len(n.Rhs) == len(n.Lhs) && isFunc(u, n.Rhs[i]) && t.lower(u, u.info.Uses[s.Sel]) {
					note(u.info.Uses[s.Sel], "in a field")
				}
			}
		case *ast.KeyValueExpr:
			if k, ok := n.Key.(*ast.Ident); ok && isFunc(u, n.Value) && t.lower(u, u.info.Uses[k]) {
				note(u.info.Uses[k], "in a field")
			}
		case *ast.TypeAssertExpr:
			from, ok := types.Unalias(u.info.TypeOf(n.X)).(*types.Named)
			if ok && n.Type != nil && t.lower(u, from.Obj()) {
				note(from.Obj(), "asserted")
			}
		}
		return true
	})
}

// lower reports whether an object is of another package of the folder.
func (t *tree) lower(u *unit, o types.Object) bool {
	return o != nil && o.Pkg() != nil && o.Pkg() != u.Package && t.byPath[o.Pkg().Path()] != nil
}

// isFunc reports whether an expression is a function, and not nil.
func isFunc(u *unit, e ast.Expr) bool {
	tv := u.info.Types[e]
	if tv.IsNil() || tv.Type == nil || tv.IsType() {
		return false
	}
	_, ok := tv.Type.Underlying().(*types.Signature)
	return ok
}
