package config

import (
	"reflect"
	"strconv"
	"strings"
)

// Schema returns the JSON Schema (draft 2020-12) of a document, for editors. It is made from the types that Parse
// decodes.
func Schema() []byte {
	s := schemaOf(reflect.TypeFor[Document](), fieldInfo{})
	return JSON(append(object{
		{"$schema", "https://json-schema.org/draft/2020-12/schema"},
		{"$id", "https://github.com/nvmeof-go/nvmeof/nvmeof/config/schema.json"},
		{"title", "nvmeof target"},
	}, s...))
}

// PartSchema returns the schema of a part of a document, like a Host, for use in another schema.
func PartSchema(part any) any { return schemaOf(reflect.TypeOf(part), fieldInfo{}) }

// object is a JSON object whose fields are in order.
type object []member

type member struct {
	name  string
	value any
}

func (o object) MarshalJSON() ([]byte, error) {
	parts := make([]string, len(o))
	for i, m := range o {
		parts[i] = strconv.Quote(m.name) + ":" + strings.TrimSpace(string(JSON(m.value)))
	}
	return []byte("{" + strings.Join(parts, ",") + "}"), nil
}

func schemaOf(t reflect.Type, tags fieldInfo) (s object) {
	if tags.doc != "" {
		s = append(s, member{"description", tags.doc})
	}
	if n, err := strconv.Atoi(tags.def); err == nil {
		s = append(s, member{"default", n})
	} else if tags.def != "" && t.Kind() != reflect.Bool {
		s = append(s, member{"default", tags.def})
	}
	if v, ok := asValue(reflect.New(t).Interface()); ok {
		return append(s, valueSchema(v, tags)...)
	}
	switch t.Kind() {
	case reflect.Pointer:
		return schemaOf(t.Elem(), tags)
	case reflect.Struct:
		return append(s, structSchema(t)...)
	case reflect.Slice:
		return append(s, member{"type", "array"}, member{"items", schemaOf(t.Elem(), fieldInfo{})})
	case reflect.Bool:
		return append(s, member{"type", "boolean"})
	case reflect.Int:
		return append(s, intSchema(tags)...)
	}
	s = append(s, member{"type", "string"}, member{"minLength", 1})
	if n, err := strconv.Atoi(tags.max); err == nil {
		s = append(s, member{"maxLength", n})
	}
	return append(s, member{"pattern", "^[ -~]*$"})
}

func valueSchema(v value, tags fieldInfo) (s object) {
	expression, names := v.pattern()
	if len(names) > 0 {
		return object{{"type", "string"}, {"enum", names}}
	}
	if _, ok := v.(*Size); ok {
		return object{{"anyOf", []object{{{"type", "string"}, {"pattern", expression}}, intSchema(tags)}}}
	}
	return object{{"type", "string"}, {"pattern", expression}}
}

func intSchema(tags fieldInfo) object {
	s := object{{"type", "integer"}}
	var few []int
	for _, o := range tags.oneof {
		n, _ := strconv.Atoi(o)
		few = append(few, n)
	}
	if few != nil {
		s = append(s, member{"enum", few})
	}
	if n, err := strconv.Atoi(tags.min); err == nil {
		s = append(s, member{"minimum", n})
	}
	if n, err := strconv.Atoi(tags.max); err == nil {
		s = append(s, member{"maximum", n})
	}
	return s
}

func structSchema(t reflect.Type) object {
	var properties object
	var need []string
	for _, f := range fieldsOf(t) {
		p := schemaOf(t.Field(f.index).Type, f)
		if t == reflect.TypeFor[Document]() && f.name == "version" {
			p = append(p, member{"const", Version})
		}
		properties = append(properties, member{f.name, p})
		if f.need {
			need = append(need, f.name)
		}
	}
	s := object{{"type", "object"}, {"additionalProperties", false}, {"properties", properties}}
	if need != nil {
		s = append(s, member{"required", need})
	}
	if t == reflect.TypeFor[Namespace]() {
		one := func(name string) object { return object{{"required", []string{name}}} }
		s = append(s, member{"oneOf", []object{one("file"), one("block"), one("memory"), one("rbd")}})
	}
	return s
}

// PartProperties returns the schemas of the fields of a part of a document.
func PartProperties(part any) any {
	var properties object
	t := reflect.TypeOf(part)
	for _, f := range fieldsOf(t) {
		properties = append(properties, member{f.name, schemaOf(t.Field(f.index).Type, f)})
	}
	return properties
}

// Needed reports whether a field is required. path is relative to part.
func Needed(part any, path string) bool {
	f, _ := fieldAt(part, path)
	return f.need
}

// fieldAt returns a field and its type. path is relative to part.
func fieldAt(part any, path string) (f fieldInfo, t reflect.Type) {
	t = reflect.TypeOf(part)
	for name := range strings.SplitSeq(path, ".") {
		for t.Kind() == reflect.Pointer {
			t = t.Elem()
		}
		at := 0
		for at < t.NumField() && fieldName(t, at) != name {
			at++
		}
		if at == t.NumField() {
			panic("config: no field " + path)
		}
		f, t = fieldOf(t, at, name), t.Field(at).Type
	}
	return f, t
}

// Describe returns the description of a field and its kind: Bool, Int, Slice or String. String stands for every
// scalar with a text form of its own. path is relative to part.
func Describe(part any, path string) (doc string, kind reflect.Kind) {
	f, t := fieldAt(part, path)
	if reflect.PointerTo(t).Implements(valueType) {
		return f.doc, reflect.String
	}
	return f.doc, t.Kind()
}
