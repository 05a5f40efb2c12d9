package config

import (
	"errors"
	"flag"
	"fmt"
	"net/netip"
	"reflect"
	"runtime"
	"strings"
	"testing"
	"time"
)

var long = flag.Bool("long", false, "as many names, namespaces and changes as there may be")

// TestCrowded: texts for which the YAML library takes quadratic time and memory, or recurses too deeply, are
// refused before it parses them.
func TestCrowded(t *testing.T) {
	const size = 128 << 10
	filled := func(piece string) string { return strings.Repeat(piece, size/len(piece)) }
	var names strings.Builder
	for i := 0; names.Len() < size; i++ {
		fmt.Fprintf(&names, "k%d: &a%d v\n", i, i)
	}
	const fields = "an object has more than 256 fields"
	for name, c := range map[string]struct{ text, want string }{
		"names and anchors":   {names.String(), fields},
		"one name":            {filled("a: 1\n"), fields},
		"comments between":    {filled("# c\na: 1\n"), fields},
		"no values":           {filled("a:\n"), fields},
		"question marks":      {filled("? a\n"), fields},
		"merged":              {"a: &x {b: 1}\n" + filled("<<: *x\n"), fields},
		"space at the end":    {filled("a: 1   \n"), fields},
		"in a list":           {"- x: 1\n" + filled("  a: 1\n"), fields},
		"nested":              {"a:\n  b:\n    - c: 1\n" + filled("      d: 1\n"), fields},
		"in braces":           {"a: {\n" + filled(" b: 1,\n") + "}", fields},
		"names in braces":     {"a: {" + filled("b,") + "}", fields},
		"braces in a list":    {"a: [{b: 1},\n{" + filled("b: 1,\n") + "}]", fields},
		"documents":           {filled("---\na: 1\n"), "more than 16 documents"},
		"commas":              {"a: [" + filled(",") + "]", "there is nothing between two commas"},
		"a large list":        {strings.Repeat("- a\n", MaxText/4), "more than 1048576 names and values; write it as JSON"},
		"a large list in one": {"a: [" + strings.Repeat("[],", MaxText/3-2) + "]", "more than 1048576 names and values"},
	} {
		if name == "a large list in one" && !*long {
			continue // as "a large list"
		}
		wantCrowded(t, name, c.text, c.want, 100) // 100 times as much memory if it is parsed
	}
}

// TestCrowdedListeners: the time of a check grows with the number of listeners that a subsystem names, not with its
// square, which was 40 s here.
func TestCrowdedListeners(t *testing.T) {
	s := &Subsystem{NQN: "nqn.2026-11.org.example:disk", AllowAnyHost: true}
	for id := range 100_000 {
		s.Listeners = append(s.Listeners, 1+id, 1+id)
	}
	began := time.Now()
	_, err := (&Document{Version: Version, Listeners: []*Listener{{ID: 1, Address: Address{netip.MustParseAddrPort("192.0.2.1:4420")}}}, Subsystems: []*Subsystem{s}}).Check()
	var found Problems
	if took := time.Since(began); took > 10*time.Second || !errors.As(err, &found) || len(found) != 2*100_000-1 {
		t.Errorf("%d problems in %v", len(found), took)
	}
}

// TestCrowdedJSON: so are JSON texts whose tree takes a hundred bytes for each byte of text.
func TestCrowdedJSON(t *testing.T) {
	for name, c := range map[string]struct{ text, want string }{
		"numbers": {`{"version":1,"subsystems":[` + strings.Repeat("0,", MaxText/2-20) + "0]}", "more than 1048576 values"},
		"lists":   {`{"version":1,"subsystems":[` + strings.Repeat("[[]],", maxValues/2) + "0]}", "more than 1048576 values"}, // with fewer commas
		"objects": {`{"version":1,"subsystems":[` + strings.Repeat("{},", MaxText/3-20) + "{}]}", "more than 1048576 values"},
		"names":   {`{` + strings.Repeat(`"":0,`, maxValues-1) + `"":0}`, "an object has more than 256 fields"},
	} {
		wantCrowded(t, name, c.text, c.want, 400) // 1.5 GiB if a tree is made
	}
}

// wantCrowded checks that a text is refused with at most so many MiB of memory.
func wantCrowded(t *testing.T, name, text, want string, most uint64) {
	t.Helper()
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	_, p := parseText([]byte(text))
	runtime.ReadMemStats(&after)
	if p == nil || !strings.Contains(p.String(), want) {
		t.Errorf("%s: %v, want %s", name, p, want)
	}
	if took := (after.TotalAlloc - before.TotalAlloc) >> 20; took > most {
		t.Errorf("%s: %d MiB", name, took)
	}
}

// TestCrowdedReader: a Reader, which skims a text before it parses what is new, refuses such texts too.
func TestCrowdedReader(t *testing.T) {
	text := `{"version":1,"subsystems":[` + strings.Repeat("0,", MaxText/2-20) + "0]}"
	if _, err := new(Reader).Read("", []byte(text)); err == nil || !strings.Contains(err.Error(), "more than 1048576 values") {
		t.Errorf("%.200v", err)
	}
}

// TestNotCrowdedJSON: a document of the maximum size with 10,000 namespaces that have all fields is accepted. The
// quick form has 1,000, and ten times as many values would be accepted.
func TestNotCrowdedJSON(t *testing.T) {
	full := func(of reflect.Type, more string) string {
		var all []string
		for _, f := range fieldsOf(of) {
			all = append(all, fmt.Sprintf("%q: 0", f.name))
		}
		return "{" + strings.Join(all, ", ") + more + "}"
	}
	inner := fmt.Sprintf(`, "a": %s, "b": %s, "c": %s, "d": %s, "e": %q`, full(reflect.TypeFor[File](), ""), full(reflect.TypeFor[Block](), ""),
		full(reflect.TypeFor[RBD](), ""), full(reflect.TypeFor[Memory](), ""), strings.Repeat("x", 1100))
	namespace := full(reflect.TypeFor[Namespace](), inner) + ",\n"
	const most = 10000
	n := most / 10
	if *long {
		n = most
	}
	text := `{"a": [` + strings.Repeat(namespace, n) + "0]}"
	if _, p := parseText([]byte(text)); p != nil || len(text)*(most/n) < MaxText*9/10 {
		t.Errorf("%d bytes: %v", len(text), p)
	}
	if values := (strings.Count(text, ",") + strings.Count(text, "{")) * (most / n); values > maxValues {
		t.Errorf("%d values of %d", values, maxValues)
	}
	for _, c := range []string{`,`, `\",`, `\\`} { // commas in strings end no value
		text := []byte(`{"a": ["` + strings.Repeat(c, maxValues+1) + `", 0]}`)
		if _, p := parseText(text); p != nil {
			t.Errorf("%.20s: %v", text, p)
		}
	}
}

// TestNotCrowded: large documents with usual contents are accepted.
func TestNotCrowded(t *testing.T) {
	object := "- x: 1\n" + strings.Repeat("  a: 1\n", maxFields-1)
	for name, text := range map[string]string{
		"objects with many fields": strings.Repeat(object, 20),
		"objects in braces":        "a: [" + strings.Repeat("{a: 1, b: [1, 2, 3]},\n", 5000) + "]",
		"short objects":            strings.Repeat("- a:\n    b: 1\n  c: {d: 1}\n", 5000),
		"words with colons":        "a: [" + strings.Repeat("nqn.2026-11.org.example:disk,\n", 5000) + "]",
		"many lines of a text":     "a: |\n" + strings.Repeat("  b: 1\n", 5000),
		"an object and its end":    "a:\n" + strings.Repeat("  b: 1\n", maxFields) + "c:\n" + strings.Repeat("  b: 1\n", maxFields),
	} {
		if _, p := parseText([]byte(text)); p != nil {
			t.Errorf("%s: %v", name, p)
		}
	}
}
