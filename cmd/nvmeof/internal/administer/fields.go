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

// A fieldFlag is a flag that sets a field of an object of the configuration.
type fieldFlag struct {
	flag string
	path string // "file.size"
}

// A fieldSet makes an object of the flags that were given.
type fieldSet struct {
	cmd    *cobra.Command
	part   any
	fields []fieldFlag
}

// addFields adds flags for fields, with the descriptions that the schema has.
func addFields(cmd *cobra.Command, part any, fields []fieldFlag) *fieldSet {
	for _, f := range fields {
		doc, kind := config.Describe(part, f.path)
		switch kind {
		case reflect.Bool:
			cmd.Flags().Bool(f.flag, false, doc)
		case reflect.Int:
			cmd.Flags().String(f.flag, "", doc)
		case reflect.Slice:
			cmd.Flags().StringSlice(f.flag, nil, doc)
		default:
			cmd.Flags().String(f.flag, "", doc)
		}
	}
	return &fieldSet{cmd, part, fields}
}

// object is what the flags say, as the API takes it; the word default takes a value
// back.
func (s *fieldSet) object() (map[string]any, error) {
	out := map[string]any{}
	for _, f := range s.fields {
		if !s.cmd.Flags().Changed(f.flag) {
			continue
		}
		v, err := s.value(f)
		if err != nil {
			return nil, err
		}
		path := f.path
		if parent := strings.LastIndex(path, "."); v == nil && parent >= 0 && config.Needed(s.part, path) {
			path = path[:parent] // --memory default: no memory any more
		}
		put(out, path, v)
	}
	return out, nil
}

// put sets a field of a field.
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

func (s *fieldSet) value(f fieldFlag) (any, error) {
	flags := s.cmd.Flags()
	_, kind := config.Describe(s.part, f.path)
	switch kind {
	case reflect.Bool:
		return flags.GetBool(f.flag)
	case reflect.Slice:
		items, err := flags.GetStringSlice(f.flag)
		if slices.Equal(items, []string{"default"}) {
			return nil, err
		}
		if f.path == "listeners" {
			return numbers(f.flag, items)
		}
		return items, err
	}
	text, err := flags.GetString(f.flag)
	if text == "default" || err != nil {
		return nil, err
	}
	if kind == reflect.Int {
		return number(f.flag, text)
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

// parseRights reads "1=read,2=none".
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
