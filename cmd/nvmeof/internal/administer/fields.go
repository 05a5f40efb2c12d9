package administer

import (
	"reflect"
	"slices"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"github.com/nvmeof-go/nvmeof/cmd/nvmeof/internal/failure"
	"github.com/nvmeof-go/nvmeof/nvmeof/config"
)

// A fieldSet makes an object from the flags that were given.
type fieldSet struct {
	cmd     *cobra.Command
	part    any
	options []config.Option
}

// addFields adds flags for the fields of an object in the document, except those named in but. Their descriptions are
// those of the schema.
func addFields(cmd *cobra.Command, part any, but ...string) *fieldSet {
	s := &fieldSet{cmd: cmd, part: part}
	for _, o := range config.Options(part) {
		if slices.Contains(but, o.Name) {
			continue
		}
		s.options = append(s.options, o)
		doc, kind := config.Describe(part, o.Paths[0])
		doc = flagUsage(doc)
		switch kind {
		case reflect.Bool:
			cmd.Flags().Bool(o.Name, false, doc)
		case reflect.Slice:
			cmd.Flags().StringSlice(o.Name, nil, doc)
		default:
			cmd.Flags().String(o.Name, "", doc)
		}
	}
	return s
}

// flagUsage converts a description of the schema to the form of flags: "Model, ASCII. Default nvmeof." becomes
// "model, ASCII (default nvmeof)".
func flagUsage(doc string) string {
	doc = strings.TrimSuffix(doc, ".")
	doc = strings.TrimSuffix(doc, ". Default false") // as of any flag that is given or not
	if text, value, some := strings.Cut(doc, ". Default"); some {
		doc = text + " (default" + value + ")"
	}
	if len(doc) > 1 && doc[1] >= 'a' && doc[1] <= 'z' {
		doc = strings.ToLower(doc[:1]) + doc[1:]
	}
	return doc
}

// object returns the object that the flags describe, in the form of the API. The value "default" resets a field.
func (s *fieldSet) object() (map[string]any, error) {
	out := map[string]any{}
	for _, o := range s.options {
		if !s.cmd.Flags().Changed(o.Name) {
			continue
		}
		path := s.path(o)
		v, err := s.value(o.Name, path)
		if err != nil {
			return nil, err
		}
		if parent := strings.LastIndex(path, "."); v == nil && parent >= 0 && config.Needed(s.part, path) {
			path = path[:parent] // --memory default: memory itself is removed
		}
		put(out, path, v)
	}
	return out, nil
}

// path returns the field that a flag sets: the one of the kind of object that other flags select, or else that of a
// file.
func (s *fieldSet) path(o config.Option) string {
	for _, p := range o.Paths {
		part, _, inner := strings.Cut(p, ".")
		if inner && s.cmd.Flags().Changed(part) {
			return p
		}
	}
	return o.Paths[0]
}

// put sets a field, which may be nested.
func put(o map[string]any, path string, v any) {
	name, rest, deep := strings.Cut(path, ".")
	if !deep {
		o[name] = v
		return
	}
	inner, ok := o[name].(map[string]any)
	if !ok {
		inner = map[string]any{}
		o[name] = inner
	}
	put(inner, rest, v)
}

func (s *fieldSet) value(flag, path string) (any, error) {
	flags := s.cmd.Flags()
	_, kind := config.Describe(s.part, path)
	switch kind {
	case reflect.Bool:
		return flags.GetBool(flag)
	case reflect.Slice:
		items, err := flags.GetStringSlice(flag)
		if slices.Equal(items, []string{"default"}) {
			return nil, err
		}
		if path == "listeners" {
			return numbers(flag, items)
		}
		return items, err
	}
	text, err := flags.GetString(flag)
	if text == "default" || err != nil {
		return nil, err
	}
	if kind == reflect.Int {
		return number(flag, text)
	}
	return text, nil
}

func number(flag, text string) (int, error) {
	n, err := strconv.Atoi(text)
	if err != nil {
		return 0, failure.Usagef("--%s %s: want a number, or default", flag, text)
	}
	return n, nil
}

func numbers(flag string, items []string) (out []int, err error) {
	for _, item := range items {
		n, err := number(flag, item)
		if err != nil {
			return nil, err
		}
		out = append(out, n)
	}
	return out, nil
}

// parseRights parses "1=read,2=none".
func parseRights(items []string) (out []map[string]any, err error) {
	out = []map[string]any{}
	if slices.Equal(items, []string{"default"}) {
		return out, nil
	}
	for _, item := range items {
		nsid, access, ok := strings.Cut(item, "=")
		n, err := strconv.Atoi(nsid)
		if !ok || err != nil {
			return nil, failure.Usagef("--namespace %s: want NSID=ACCESS, as in 1=read,2=none", item)
		}
		out = append(out, map[string]any{"nsid": n, "access": access})
	}
	return out, nil
}
