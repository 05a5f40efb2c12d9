package exported

import (
	"fmt"
	"go/token"
	"go/types"
	"regexp"
	"slices"
	"strings"
)

const module = "github.com/nvmeof-go/nvmeof"

// internalType matches a type of an internal package, as types.TypeString writes it.
var internalType = regexp.MustCompile(`[\w/]+/internal/[\w/]+\.\w+`)

// A describer describes packages as lines. A type of an internal package is named by its public alias.
type describer struct {
	aliases map[string]string // "x/internal/y.T" to "x.T"
	lines   []string
	leaks   []string // internal types that a program cannot name
}

// local returns the path of a package within the module.
func local(p *types.Package) string { return strings.TrimPrefix(p.Path(), module+"/") }

// learn records the aliases of a package.
func (d *describer) learn(p *types.Package) {
	for _, name := range p.Scope().Names() {
		o, ok := p.Scope().Lookup(name).(*types.TypeName)
		if !ok || !o.Exported() || !o.IsAlias() {
			continue
		}
		if n, ok := types.Unalias(o.Type()).(*types.Named); ok && n.TypeArgs() == nil {
			full := local(n.Obj().Pkg()) + "." + n.Obj().Name()
			if internalType.MatchString(full) && d.aliases[full] == "" {
				d.aliases[full] = local(p) + "." + name
			}
		}
	}
}

// text returns a type as text.
func (d *describer) text(t types.Type, where string) string {
	s := types.TypeString(t, func(p *types.Package) string { return local(p) })
	return internalType.ReplaceAllStringFunc(s, func(name string) string {
		if alias := d.aliases[name]; alias != "" {
			return alias
		}
		d.leaks = append(d.leaks, where+" has the type "+name)
		return name
	})
}

// signature returns the type of a function without the names of its parameters.
func (d *describer) signature(s *types.Signature, where string) string {
	bare := func(t *types.Tuple) *types.Tuple {
		var vars []*types.Var
		for v := range t.Variables() {
			vars = append(vars, types.NewVar(token.NoPos, nil, "", v.Type()))
		}
		return types.NewTuple(vars...)
	}
	var params []*types.TypeParam
	for p := range s.TypeParams().TypeParams() {
		params = append(params, p)
	}
	if params != nil { // bound to their function: the names of its parameters stay
		return strings.TrimPrefix(d.text(s, where), "func")
	}
	return strings.TrimPrefix(d.text(types.NewSignatureType(nil, nil, nil, bare(s.Params()), bare(s.Results()), s.Variadic()), where), "func")
}

// describe adds the lines of a package.
func (d *describer) describe(p *types.Package) {
	pkg := "pkg " + local(p) + ", "
	for _, name := range p.Scope().Names() {
		o := p.Scope().Lookup(name)
		if !o.Exported() {
			continue
		}
		where := local(p) + "." + name
		switch o := o.(type) {
		case *types.Const:
			d.add(pkg+"const %s %s = %s", name, d.text(o.Type(), where), o.Val().ExactString())
		case *types.Var:
			d.add(pkg+"var %s %s", name, d.text(o.Type(), where))
		case *types.Func:
			d.add(pkg+"func %s%s", name, d.signature(o.Signature(), where))
		case *types.TypeName:
			d.describeType(pkg, name, o)
		}
	}
}

func (d *describer) add(format string, args ...any) {
	d.lines = append(d.lines, fmt.Sprintf(format, args...))
}

// describeType adds a type's underlying type, fields and methods. An internal type is described under its public alias.
func (d *describer) describeType(pkg, name string, o *types.TypeName) {
	t := o.Type()
	if o.IsAlias() {
		t = types.Unalias(t)
		n, ok := t.(*types.Named)
		if !ok || !internalType.MatchString(local(n.Obj().Pkg())+"."+n.Obj().Name()) {
			d.add(pkg+"type %s = %s", name, d.text(t, name))
			return
		}
	}
	where := strings.TrimSuffix(strings.TrimPrefix(pkg, "pkg "), ", ") + "." + name
	switch u := t.Underlying().(type) {
	case *types.Struct:
		d.add(pkg+"type %s struct", name)
		for f := range u.Fields() {
			if !f.Exported() {
				continue
			}
			embedded := ""
			if f.Embedded() {
				embedded = "embedded "
			}
			d.add(pkg+"type %s struct, %s %s%s", name, f.Name(), embedded, d.text(f.Type(), where+"."+f.Name()))
		}
	case *types.Interface:
		d.describeInterface(pkg, name, where, u)
		return
	default:
		d.add(pkg+"type %s %s", name, d.text(u, where))
	}
	pointer := types.NewMethodSet(types.NewPointer(t))
	value := types.NewMethodSet(t)
	for m := range pointer.Methods() {
		if !m.Obj().Exported() {
			continue
		}
		receiver := "*" + name
		if value.Lookup(m.Obj().Pkg(), m.Obj().Name()) != nil {
			receiver = name
		}
		method := m.Obj().Name()
		d.add(pkg+"method (%s) %s%s", receiver, method, d.signature(m.Type().(*types.Signature), where+"."+method))
	}
}

// describeInterface adds also a line with all methods, because a new method breaks types that implement the interface.
func (d *describer) describeInterface(pkg, name, where string, u *types.Interface) {
	var methods []string
	for m := range u.Methods() {
		methods = append(methods, m.Name())
		if m.Exported() {
			d.add(pkg+"type %s interface, %s%s", name, m.Name(), d.signature(m.Signature(), where+"."+m.Name()))
		}
	}
	slices.Sort(methods)
	d.add(pkg+"type %s interface { %s }", name, strings.Join(methods, ", "))
}

// symbol returns what a line of a package's interface describes, named as in Go's documentation: "host.Controller.ID".
func symbol(line string) string {
	path, rest, _ := strings.Cut(strings.TrimPrefix(line, "pkg "), ", ")
	pkg := path[strings.LastIndexByte(path, '/')+1:]
	kind, rest, _ := strings.Cut(rest, " ")
	if kind == "method" { // (*T) Name(...)
		receiver, method, _ := strings.Cut(rest, ") ")
		method, _, _ = strings.Cut(method, "(")
		return pkg + "." + strings.TrimLeft(receiver, "(*") + "." + method
	}
	name := rest[:len(rest)-len(strings.TrimLeft(rest, letters))]
	if _, member, ok := strings.Cut(rest, ", "); ok && kind == "type" && !strings.Contains(rest, "{") {
		return pkg + "." + name + "." + member[:len(member)-len(strings.TrimLeft(member, letters))]
	}
	return pkg + "." + name
}

const letters = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_"
