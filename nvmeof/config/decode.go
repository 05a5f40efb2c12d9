package config

import (
	"fmt"
	"reflect"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/nvmeof-go/nvmeof/nvmeof"
)

// A decoder fills structures from a tree of nodes as their field tags say. It collects all problems instead of
// stopping at the first.
type decoder struct {
	problems Problems
	merge    bool                // fields that are not given keep their values; null selects the default
	places   map[string]Position // position of each value, by path
	types    map[reflect.Type][]fieldInfo
}

// fieldsOf returns the fields of a structure. It reads the tags of a type only once for a document.
func (d *decoder) fieldsOf(t reflect.Type) []fieldInfo {
	all, known := d.types[t]
	if !known {
		all = fieldsOf(t)
		if d.types == nil {
			d.types = map[reflect.Type][]fieldInfo{}
		}
		d.types[t] = all
	}
	return all
}

// maxProblems is the number of problems after which items of lists are skipped: a list can have as many items as a
// document has bytes.
const maxProblems = 1000

func (d *decoder) fail(at Position, path, text, fix string) {
	d.problems = append(d.problems, Problem{At: at, Path: path, Text: text, Fix: fix})
}

// A fieldInfo has the contents of a field's tags.
type fieldInfo struct {
	index    int
	name     string
	need     bool
	doc      string
	def      string // default, if it is a constant
	min, max string
	oneof    []string
	short    string // name in --export, if it differs
}

// fieldsOf returns the fields of a structure in order.
func fieldsOf(t reflect.Type) (out []fieldInfo) {
	for i := range t.NumField() {
		if name := fieldName(t, i); name != "" {
			out = append(out, fieldOf(t, i, name))
		}
	}
	return out
}

// fieldName returns the name of field i in a document, or "" if documents do not have it.
func fieldName(t reflect.Type, i int) string {
	name, _, _ := strings.Cut(t.Field(i).Tag.Get("json"), ",")
	if name == "-" {
		return ""
	}
	return name
}

// fieldOf returns field i, which has the given name.
func fieldOf(t reflect.Type, i int, name string) fieldInfo {
	tag := t.Field(i).Tag
	return fieldInfo{
		index: i, name: name, need: tag.Get("need") == "yes", doc: tag.Get("doc"),
		def: tag.Get("default"), min: tag.Get("min"), max: tag.Get("max"), oneof: strings.Fields(tag.Get("oneof")), short: tag.Get("export"),
	}
}

// join returns the path of a field of the object at path.
func join(path, name string) string {
	if path == "" {
		return name
	}
	return path + "." + name
}

// decode fills to from n. tags are those of the field that has it.
func (d *decoder) decode(n *node, to reflect.Value, path string, tags fieldInfo) {
	d.places[path] = n.at
	if d.merge && n.kind == kindNull {
		if tags.need {
			d.fail(n.at, path, "has no default", "give a value, or leave the field as it is")
			return
		}
		to.SetZero()
		return
	}
	if v, ok := asValue(to.Addr().Interface()); ok {
		d.value(n, v, to, path, tags)
		return
	}
	switch to.Kind() {
	case reflect.Pointer:
		merge := d.merge
		if !merge || to.IsNil() {
			to.Set(reflect.New(to.Type().Elem()))
			d.merge = false // a new object needs all of its required fields
		}
		d.decode(n, to.Elem(), path, tags)
		d.merge = merge
	case reflect.Struct:
		d.object(n, to, path)
	case reflect.Slice:
		d.list(n, to, path)
	case reflect.Bool:
		if d.is(n, kindBool, path) {
			to.SetBool(n.text == "true")
		}
	case reflect.Int:
		d.number(n, to, path, tags)
	case reflect.String:
		d.text(n, to, path, tags)
	default:
		panic("config: no rule for " + to.Type().String())
	}
}

// is reports a problem unless the node has the given kind.
func (d *decoder) is(n *node, k kind, path string) bool {
	if n.kind == k {
		return true
	}
	fix := ""
	switch {
	case k == kindText && n.kind < kindText:
		fix = fmt.Sprintf("put it in quotes: %q", n.text)
	case k == kindList:
		fix = "begin each item with a dash, or write [a, b]"
	case n.kind == kindText && k < kindText:
		fix = unquoted(n.text, k)
	case n.kind == kindNull:
		fix = "give a value, or leave the field out"
	}
	d.fail(n.at, path, fmt.Sprintf("is %v, want %v", n.kind, k), fix)
	return false
}

// unquoted returns how to correct text where a number or a boolean is expected, or "" if that is unclear.
func unquoted(text string, k kind) string {
	number := regexp.MustCompile(`^[0-9]+$`).MatchString(text)
	switch word := strings.ToLower(text); {
	case k == kindNumber && number, k == kindBool && (word == "true" || word == "false"):
		return "write it without quotes"
	case k == kindBool && (word == "yes" || word == "on" || word == "y"): // booleans of YAML 1.1
		return "write true"
	case k == kindBool && (word == "no" || word == "off" || word == "n"):
		return "write false"
	}
	return ""
}

// object fills a structure.
func (d *decoder) object(n *node, to reflect.Value, path string) {
	if !d.is(n, kindObject, path) {
		return
	}
	fields, seen := d.fieldsOf(to.Type()), map[string]Position{}
	for _, f := range n.fields {
		at := slices.IndexFunc(fields, func(i fieldInfo) bool { return i.name == f.name })
		if first, twice := seen[f.name]; twice {
			d.fail(f.at, join(path, f.name), fmt.Sprintf("is given twice; the first is in line %d", first.Line), "keep one")
			continue
		}
		seen[f.name] = f.at
		if at < 0 {
			d.unknown(f, path, fields)
			continue
		}
		d.decode(f.value, to.Field(fields[at].index), join(path, f.name), fields[at])
	}
	for _, f := range fields {
		if _, given := seen[f.name]; f.need && !given && !d.merge {
			d.fail(n.at, path, f.name+" is missing", "add it: "+f.doc)
		}
	}
}

func (d *decoder) unknown(f field, path string, fields []fieldInfo) {
	names := make([]string, len(fields))
	for i := range fields {
		names[i] = fields[i].name
	}
	fix := "the fields are " + strings.Join(names, ", ")
	if near := nvmeof.Nearest(strings.ToLower(strings.ReplaceAll(f.name, "_", "-")), names); near != "" {
		fix = "did you mean " + near + "?"
	}
	d.fail(f.at, path, "unknown field "+nvmeof.Printable(f.name), fix)
}

func (d *decoder) list(n *node, to reflect.Value, path string) {
	if !d.is(n, kindList, path) {
		return
	}
	to.Set(reflect.MakeSlice(to.Type(), len(n.items), len(n.items)))
	merge := d.merge
	d.merge = false // a list replaces the old one as a whole
	defer func() { d.merge = merge }()
	for i, item := range n.items {
		if len(d.problems) >= maxProblems {
			to.Set(to.Slice(0, i))
			return
		}
		d.decode(item, to.Index(i), fmt.Sprintf("%s[%d]", path, i), fieldInfo{})
	}
}

// value fills a scalar with a text form of its own.
func (d *decoder) value(n *node, v value, to reflect.Value, path string, tags fieldInfo) {
	_, isSize := v.(*Size)
	if !(isSize && n.kind == kindNumber) && !d.is(n, kindText, path) {
		return
	}
	if err := v.UnmarshalText([]byte(n.text)); err != nil {
		d.fail(n.at, path, err.Error(), "")
		return
	}
	if isSize {
		d.bounds(n, to.Int(), path, tags, func(n int64) string { return Size(n).String() })
	}
}

func (d *decoder) number(n *node, to reflect.Value, path string, tags fieldInfo) {
	if !d.is(n, kindNumber, path) {
		return
	}
	i, err := strconv.ParseInt(n.text, 10, 64)
	if err != nil {
		d.fail(n.at, path, nvmeof.Printable(n.text)+" is not a whole number in decimal digits", few(tags))
		return
	}
	if digits := strings.TrimLeft(n.text, "+-"); len(digits) > 1 && digits[0] == '0' { // octal in YAML 1.1, decimal in 1.2
		text := " is decimal to some programs and octal to others"
		if octal, err := strconv.ParseInt(n.text, 8, 64); err == nil {
			text = fmt.Sprintf(" is %d to some programs and %d to others", octal, i)
		}
		d.fail(n.at, path, nvmeof.Printable(n.text)+text, "write it without leading zeros")
		return
	}
	if len(tags.oneof) > 0 && !slices.Contains(tags.oneof, n.text) {
		d.fail(n.at, path, fmt.Sprintf("%d is not allowed", i), few(tags))
		return
	}
	if d.bounds(n, i, path, tags, func(n int64) string { return strconv.FormatInt(n, 10) }) {
		to.SetInt(i)
	}
}

// few returns the values that a number can have, if the tags list them.
func few(tags fieldInfo) string {
	if len(tags.oneof) == 0 {
		return ""
	}
	return "use " + strings.Join(tags.oneof, " or ")
}

// bounds reports a problem unless i is within the limits of the tags.
func (d *decoder) bounds(n *node, i int64, path string, tags fieldInfo, show func(int64) string) bool {
	low, errLow := strconv.ParseInt(tags.min, 10, 64)
	high, errHigh := strconv.ParseInt(tags.max, 10, 64)
	switch {
	case errLow == nil && i < low:
		d.fail(n.at, path, show(i)+" is too small", "at least "+show(low))
	case errHigh == nil && i > high:
		d.fail(n.at, path, show(i)+" is too large", "at most "+show(high))
	default:
		return true
	}
	return false
}

// text fills a string. It accepts only printable ASCII, as NVMe requires.
func (d *decoder) text(n *node, to reflect.Value, path string, tags fieldInfo) {
	if !d.is(n, kindText, path) {
		return
	}
	odd := strings.IndexFunc(n.text, func(r rune) bool { return r < ' ' || r > '~' })
	most, err := strconv.Atoi(tags.max)
	switch {
	case odd >= 0:
		d.fail(n.at, path, nvmeof.Printable(n.text)+" has characters other than printable ASCII", "")
	case n.text == "":
		d.fail(n.at, path, "is empty", "leave it out for the default")
	case err == nil && len(n.text) > most:
		d.fail(n.at, path, fmt.Sprintf("%d characters are too many", len(n.text)), fmt.Sprintf("at most %d", most))
	default:
		to.SetString(n.text)
	}
}
