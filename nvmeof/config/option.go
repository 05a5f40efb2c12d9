package config

import (
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strings"

	"github.com/nvmeof-go/nvmeof/nvmeof"
)

// An Option is a field of an object, or of a part of it, that can be given on a command line.
type Option struct {
	Name string // name of the flag
	// Paths are the paths of the field: "block-size", or "file.buffered" and "block.buffered" if it depends on the
	// kind of storage.
	Paths []string
	short string // name in --export, if it differs
}

// Options returns the fields of an object that can be given on a command line, in order. It leaves out those that
// identify the object, and lists of objects. The required field of a part has the name of the part: --file is
// file.path.
func Options(part any) (out []Option) {
	for _, f := range optionsOf(reflect.TypeOf(part)) {
		if f.Name != "" {
			out = append(out, f)
		}
	}
	return out
}

// optionsOf also returns options that only --export has, since the object has another field of the same name. Their
// Name is "".
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

// A Machine gives [ParseExport] access to the file system.
type Machine struct {
	IsDevice func(path string) bool            // reports whether path is a block device
	Abs      func(path string) (string, error) // returns the absolute path
}

// ParseExport parses a namespace in the form of --export: mem:SIZE, rbd:POOL/IMAGE, or the path of a file or a
// device. Options can follow, separated by commas: fields of the namespace or of its file or device. For a boolean,
// the name means true. The namespace has no NSID.
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
			return nil, errors.New("rbd: an image is missing, as in rbd:POOL/IMAGE (or ./rbd: for a file of that name)")
		}
	case what == "mem":
		return nil, errors.New("memory needs a size, as in mem:1GiB; for a file of that name, write ./mem")
	case what == "":
		return nil, errors.New("it is empty: give mem:SIZE, rbd:POOL/IMAGE, a file's path or a block device")
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

// kinds are the names of the kinds of storage, in the plural.
var kinds = map[string]string{"file": "files", "block": "block devices", "memory": "memory", "rbd": "images of Ceph"}

// exportOption parses one option of a namespace of the given kind.
func (n *Namespace) exportOption(s, kind string, abs func(string) (string, error)) error {
	name, text, given := strings.Cut(s, "=")
	var names []string
	var option *Option
	for _, o := range optionsOf(reflect.TypeFor[Namespace]()) {
		if o.Name == "file" || o.Name == "block" || o.Name == "memory" || o.Name == "rbd" {
			continue // the storage itself is not an option
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
		return fmt.Errorf("unknown option %s; the options are %s%s", nvmeof.Printable(name), strings.Join(names, ", "), fix)
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
			return fmt.Errorf("%s has no value: give %[1]s=FILE", name)
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

// called returns the option's name in --export.
func (o *Option) called() string {
	if o.short != "" {
		return o.short
	}
	return o.Name
}

// path returns the path of the field for a namespace of the given kind, or "" and the kinds that have the option.
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

// textNode returns the value of an option for a field of type t. For a boolean that is not given, it is true.
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
