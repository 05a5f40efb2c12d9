package config

import (
	"fmt"
	"runtime"
	"strings"
	"testing"
)

// TestCrowded: texts for which the YAML library takes quadratic time and memory, or calls itself too
// deeply, are refused before it parses them.
func TestCrowded(t *testing.T) {
	const size = 256 << 10
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
		"commas":              {"a: [" + filled(",") + "]", "nothing is between two commas"},
		"a large list":        {strings.Repeat("- a\n", MaxText/4), "more than 1048576 names and values; write it as JSON"},
		"a large list in one": {"a: [" + strings.Repeat("[],", MaxText/3-2) + "]", "more than 1048576 names and values"},
	} {
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		_, p := parseText([]byte(c.text))
		runtime.ReadMemStats(&after)
		if p == nil || !strings.Contains(p.String(), c.want) {
			t.Errorf("%s: %v, want %s", name, p, c.want)
		}
		if took := (after.TotalAlloc - before.TotalAlloc) >> 20; took > 200 { // 100 times as many bytes where it parses them
			t.Errorf("%s: %d MiB", name, took)
		}
	}
}

// TestNotCrowded: what documents have is read, however much of it.
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
