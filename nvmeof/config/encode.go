package config

import (
	"bytes"
	"encoding/json"
	"net/netip"
	"reflect"
	"regexp"
	"strconv"
	"strings"

	"github.com/nvmeof-go/nvmeof/internal/controls"
)

// JSON returns the canonical JSON of a document or of a part of one: fields in the order of the types, without zero
// ones, indented by two spaces.
func JSON(part any) []byte {
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	e.SetIndent("", "  ")
	if err := e.Encode(part); err != nil {
		panic("config: " + err.Error()) // our own types can be encoded
	}
	return controls.Escape(b.Bytes())
}

// YAML returns the same as YAML. Empty lists are left out.
func YAML(part any) []byte {
	w := yamlWriter{}
	v := reflect.ValueOf(part)
	for v.Kind() == reflect.Pointer {
		v = v.Elem()
	}
	switch v.Kind() {
	case reflect.Struct:
		w.object(v, 0, false)
	case reflect.Slice:
		w.list(v, 0)
	default:
		w.WriteString(scalar(v) + "\n")
	}
	if w.Len() == 0 {
		w.WriteString("[]\n")
	}
	return w.Bytes()
}

// JSON returns the canonical JSON of the document.
func (doc *Document) JSON() []byte { return JSON(doc) }

// YAML returns the canonical YAML of the document.
func (doc *Document) YAML() []byte { return YAML(doc) }

type yamlWriter struct{ bytes.Buffer }

func (w *yamlWriter) indent(depth int) { w.WriteString(strings.Repeat("  ", depth)) }

// object writes the fields of a structure. If open is set, the line of the first one has already been started.
func (w *yamlWriter) object(v reflect.Value, depth int, open bool) {
	if w.fields(v, depth, open) { // an object without fields
		w.WriteString("{}\n")
	}
}

// fields writes the fields, including those of embedded structures. It reports whether a line that was started is
// still empty.
func (w *yamlWriter) fields(v reflect.Value, depth int, open bool) bool {
	for i := range v.NumField() {
		x, field := v.Field(i), v.Type().Field(i)
		name := fieldName(v.Type(), i)
		switch {
		case name == "" && field.Anonymous && x.Kind() == reflect.Struct:
			open = w.fields(x, depth, open)
			continue
		case name == "", x.IsZero() && leftOut(field), x.Kind() == reflect.Slice && x.Len() == 0, absent(x):
			continue
		}
		if !open {
			w.indent(depth)
		}
		open = false
		w.field(name, x, depth)
	}
	return open
}

// absent reports whether a field is nil.
func absent(x reflect.Value) bool {
	return (x.Kind() == reflect.Pointer || x.Kind() == reflect.Map || x.Kind() == reflect.Interface) && x.IsNil()
}

// leftOut reports whether a zero field is left out, as in JSON.
func leftOut(f reflect.StructField) bool {
	_, options, _ := strings.Cut(f.Tag.Get("json"), ",")
	return strings.Contains(options, "omit")
}

// field writes a field. Its line is already indented.
func (w *yamlWriter) field(name string, x reflect.Value, depth int) {
	w.WriteString(name + ":")
	for x.Kind() == reflect.Pointer {
		x = x.Elem()
	}
	switch {
	case isScalar(x):
		w.WriteString(" " + scalar(x) + "\n")
	case x.Kind() == reflect.Struct:
		w.WriteByte('\n')
		w.object(x, depth+1, false)
	case x.Kind() == reflect.Map:
		w.WriteString(" " + strings.TrimSpace(string(JSON(x.Interface()))) + "\n")
	case isScalarType(x.Type().Elem()):
		w.WriteString(" " + flow(x) + "\n")
	default:
		w.WriteByte('\n')
		w.list(x, depth+1)
	}
}

func (w *yamlWriter) list(v reflect.Value, depth int) {
	for i := range v.Len() {
		x := v.Index(i)
		for x.Kind() == reflect.Pointer || x.Kind() == reflect.Interface {
			x = x.Elem()
		}
		w.indent(depth)
		w.WriteString("- ")
		if isScalar(x) {
			w.WriteString(scalar(x) + "\n")
			continue
		}
		w.object(x, depth+1, true)
	}
}

// flow returns a list of scalars on one line.
func flow(v reflect.Value) string {
	items := make([]string, v.Len())
	for i := range items {
		items[i] = scalar(v.Index(i))
	}
	return "[" + strings.Join(items, ", ") + "]"
}

var (
	valueType   = reflect.TypeFor[value]()
	marshalType = reflect.TypeFor[interface{ MarshalText() ([]byte, error) }]()
)

func isScalar(v reflect.Value) bool { return isScalarType(v.Type()) }

func isScalarType(t reflect.Type) bool {
	switch t.Kind() {
	case reflect.Bool, reflect.String, reflect.Float64,
		reflect.Int, reflect.Int8, reflect.Int16, reflect.Int32, reflect.Int64,
		reflect.Uint, reflect.Uint8, reflect.Uint16, reflect.Uint32, reflect.Uint64:
		return true
	}
	return t.Implements(marshalType)
}

func scalar(v reflect.Value) string {
	if m, ok := v.Interface().(interface{ MarshalText() ([]byte, error) }); ok {
		text, _ := m.MarshalText()
		return quote(string(text))
	}
	switch v.Kind() {
	case reflect.Bool:
		return strconv.FormatBool(v.Bool())
	case reflect.String:
		return quote(v.String())
	case reflect.Float64:
		return strconv.FormatFloat(v.Float(), 'g', -1, 64)
	case reflect.Uint, reflect.Uint8, reflect.Uint16, reflect.Uint32, reflect.Uint64:
		return strconv.FormatUint(v.Uint(), 10)
	}
	return strconv.FormatInt(v.Int(), 10)
}

// plain matches text that every YAML parser reads as text without quotes.
var plain = regexp.MustCompile(`^([a-zA-Z/][a-zA-Z0-9_./-]*(:[a-zA-Z0-9_./-]+)*|[1-9][0-9]*([KMGT]i?B|[kMG]bit|ns|us|µs|ms|s|m|h)|1/[1-9][0-9]*|[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12})$`)

// words are those that some YAML parsers do not read as text.
var words = map[string]bool{"null": true, "true": true, "false": true, "yes": true, "no": true, "on": true, "off": true, "y": true, "n": true}

// quote returns s in a form that is read as text: plain if that is safe, else in double quotes, as in JSON.
func quote(s string) string {
	if plain.MatchString(s) && !words[strings.ToLower(s)] {
		return s
	}
	if a, err := netip.ParseAddrPort(s); err == nil && a.Addr().Is4() {
		return s
	}
	return strings.TrimSpace(string(JSON(s)))
}
