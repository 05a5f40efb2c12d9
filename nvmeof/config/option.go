package config

import (
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strings"

	"github.com/nvmeof-go/nvmeof/nvmeof"
)

// An Option is a field of an object, or of what is in it, as a command line gives it.
type Option struct {
	Name string // of the flag
	// Paths are those of the field: "block-size", or "file.buffered" and "block.buffered" of
	// what is one of the two.
	Paths []string
	short string // in --export, where it is another
}

// Options are the fields of an object that a command line can give, in their order: all but
// those that name the object, and lists of objects. What is needed of a part has the name
// of the part: --file is file.path.
func Options(part any) (out []Option) {
	for _, f := range optionsOf(reflect.TypeOf(part)) {
		if f.Name != "" {
			out = append(out, f)
		}
	}
	return out
}

// optionsOf has also those that have a name in --export alone, since the object has another
// field of the same name.
func optionsOf(t reflect.Type) (out []Option) {
	outer := fieldsOf(t)
	add := func(o Option) {
		if at := slices.IndexFunc(out, func(x Option) bool { return x.Name == o.Name && x.short == o.short }); at >= 0 {
			out[at].Paths = append(out[at].Paths, o.Paths...)
			return
		}
		out = append(out, o)
	}
	for _, f := range outer {
		switch field := t.Field(f.index).Type; {
		case field.Kind() == reflect.Pointer && !isScalarType(field):
			for _, g := range fieldsOf(field.Elem()) {
				o := Option{Name: g.name, Paths: []string{f.name + "." + g.name}, short: g.short}
				if g.need {
					o.Name = f.name
				} else if slices.ContainsFunc(outer, func(x fieldInfo) bool { return x.name == g.name }) {
					o.Name = ""
				}
				add(o)
			}
		case f.need, field.Kind() == reflect.Slice && !isScalarType(field.Elem()):
		default:
			add(Option{f.name, []string{f.name}, f.short})
		}
	}
	return out
}

// A Machine is what [ParseExport] has to know of the one that it is for.
type Machine struct {
	IsDevice func(path string) bool            // whether it is a block device
	Abs      func(path string) (string, error) // the path from the root
}

// ParseExport reads a namespace as --export has it: mem:SIZE, rbd:POOL/IMAGE, or the path of a file or a
// device, and then, with commas between them, fields of the namespace or of its file or
// device. Fields that are true or false are given by their names alone. The namespace has no
// number.
func ParseExport(s string, here Machine) (*Namespace, error) {
	what, rest, some := strings.Cut(s, ",")
	n, kind := new(Namespace), "file"
	switch size, isMemory := strings.CutPrefix(what, "mem:"); {
	case isMemory:
		bytes, err := nvmeof.ParseSize(size)
		if err != nil {
			return nil, err
		}
		n.Memory, kind = &Memory{Size(bytes)}, "memory"
	case strings.HasPrefix(what, RBDPrefix):
		n.RBD, kind = &RBD{Image: strings.TrimPrefix(what, RBDPrefix)}, "rbd"
		if n.RBD.Image == "" {
			return nil, errors.New("rbd: needs an image, as in rbd:POOL/IMAGE; a file of that name is written ./rbd: with its path")
		}
	case what == "mem":
		return nil, errors.New("memory needs a size, as in mem:1GiB; a file of that name is ./mem")
	case what == "":
		return nil, errors.New("it names nothing: give mem:SIZE, rbd:POOL/IMAGE, a file's path or a block device")
	default:
		path, err := here.Abs(what)
		if err == nil {
			err = checkPath(path)
		}
		switch {
		case err != nil:
			return nil, err
		case here.IsDevice(what):
			n.Block, kind = &Block{Path: Path(path)}, "block"
		default:
			n.File = &File{Path: Path(path)}
		}
	}
	if !some {
		return n, nil
	}
	for option := range strings.SplitSeq(rest, ",") {
		if err := n.exportOption(option, kind, here.Abs); err != nil {
			return nil, err
		}
	}
	return n, nil
}

// kinds are what a namespace is, in the plural.
var kinds = map[string]string{"file": "files", "block": "block devices", "memory": "memory", "rbd": "images of Ceph"}

// exportOption reads one option of a namespace that is a file, a block device or memory.
func (n *Namespace) exportOption(s, kind string, abs func(string) (string, error)) error {
	name, text, given := strings.Cut(s, "=")
	var names []string
	var option *Option
	for _, o := range optionsOf(reflect.TypeFor[Namespace]()) {
		if o.Name == "file" || o.Name == "block" || o.Name == "memory" || o.Name == "rbd" {
			continue // what is exported is no option
		}
		names = append(names, o.called())
		if name == o.called() || name == o.Name && name != "" {
			option = &o
		}
	}
	if option == nil {
		slices.Sort(names)
		fix := ""
		if near := nvmeof.Nearest(name, names); near != "" {
			fix = "; did you mean " + near + "?"
		}
		return fmt.Errorf("unknown option %s; there are %s%s", nvmeof.Printable(name), strings.Join(names, ", "), fix)
	}
	path, of := option.path(kind)
	if path == "" {
		return fmt.Errorf("%s is an option of %s, not of %s", name, strings.Join(of, " and "), kinds[kind])
	}
	f, t := fieldAt(*n, path)
	value, err := textNode(t, text, given)
	if err != nil {
		return fmt.Errorf("%s: %w", name, err)
	}
	if t == reflect.TypeFor[Path]() {
		if text == "" {
			return fmt.Errorf("%s names no file: give %[1]s=FILE", name)
		}
		if value.text, err = abs(text); err != nil {
			return err
		}
	}
	to := reflect.ValueOf(n).Elem()
	for part := range strings.SplitSeq(path, ".") {
		to = reflect.Indirect(to)
		to = to.Field(fieldsOf(to.Type())[slices.IndexFunc(fieldsOf(to.Type()), func(f fieldInfo) bool { return f.name == part })].index)
	}
	d := &decoder{places: map[string]Position{}}
	d.decode(value, to, name, f)
	return d.problems.err()
}

// called is the option's name in --export.
func (o *Option) called() string {
	if o.short != "" {
		return o.short
	}
	return o.Name
}

// path is that of the field where the namespace is a file, a block device or memory; empty:
// it is an option of others.
func (o *Option) path(kind string) (path string, of []string) {
	for _, p := range o.Paths {
		part, _, inner := strings.Cut(p, ".")
		if !inner || part == kind {
			return p, nil
		}
		of = append(of, kinds[part])
	}
	return "", of
}

// textNode is a value that a command line has for a field of that type. True need not be
// said.
func textNode(t reflect.Type, text string, given bool) (*node, error) {
	v := &node{kind: kindText, text: text}
	switch {
	case reflect.PointerTo(t).Implements(valueType):
	case t.Kind() == reflect.Bool:
		v.kind = kindBool
		if !given {
			v.text = "true"
		}
		if v.text != "true" && v.text != "false" {
			return nil, fmt.Errorf("is %s, want true or false", nvmeof.Printable(text))
		}
	case t.Kind() == reflect.Int:
		v.kind = kindNumber
	}
	return v, nil
}
