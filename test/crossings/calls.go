package main

import (
	"go/ast"
	"go/types"
	"strings"
)

// callees returns the functions that a call may reach, as far as types show. Conversions, built-in functions and
// variables of function types have none.
func (t *tree) callees(u *unit, call *ast.CallExpr) []*types.Func {
	fun := ast.Unparen(call.Fun)
	switch f := fun.(type) {
	case *ast.IndexExpr:
		fun = f.X
	case *ast.IndexListExpr:
		fun = f.X
	}
	switch f := fun.(type) {
	case *ast.Ident:
		return t.behind(u.info.Uses[f], nil)
	case *ast.SelectorExpr:
		s := u.info.Selections[f]
		if s == nil {
			return t.behind(u.info.Uses[f.Sel], nil)
		}
		return t.behind(s.Obj(), s)
	}
	return nil
}

// behind returns the function of an object. For a method of an interface it returns the methods of the folder's types
// that implement the interface, or the method itself if there are none.
func (t *tree) behind(o types.Object, s *types.Selection) []*types.Func {
	f, ok := o.(*types.Func)
	if !ok {
		return nil
	}
	recv := f.Signature().Recv()
	if recv == nil || !types.IsInterface(recv.Type()) {
		return []*types.Func{f.Origin()}
	}
	var out []*types.Func
	if i, ok := recv.Type().Underlying().(*types.Interface); ok && s != nil {
		for _, c := range t.concrete {
			if p := types.NewPointer(c); types.Implements(p, i) {
				m, _, _ := types.LookupFieldOrMethod(p, true, f.Pkg(), f.Name())
				out = append(out, m.(*types.Func).Origin())
			}
		}
	}
	if len(out) == 0 {
		out = append(out, f.Origin())
	}
	return out
}

// outside reports whether a function is a method of an interface of the folder that no type of the folder implements.
func (t *tree) outside(f *types.Func) bool {
	recv := f.Signature().Recv()
	return recv != nil && types.IsInterface(recv.Type())
}

// callsIn calls yield with each call in a declared function, function literals included.
func callsIn(decl *ast.FuncDecl, yield func(*ast.CallExpr)) {
	ast.Inspect(decl, func(n ast.Node) bool {
		if c, ok := n.(*ast.CallExpr); ok {
			yield(c)
		}
		return true
	})
}

// functions calls yield with every function of the folder that has a body.
func (t *tree) functions(yield func(u *unit, decl *ast.FuncDecl, f *types.Func)) {
	for _, u := range t.packages {
		for _, file := range u.files {
			for _, d := range file.Decls {
				if decl, ok := d.(*ast.FuncDecl); ok && decl.Body != nil {
					yield(u, decl, u.info.Defs[decl.Name].(*types.Func))
				}
			}
		}
	}
}

// short returns a function's name without the module path.
func short(f *types.Func) string { return strings.ReplaceAll(f.FullName(), module+"/", "") }
