package nvmecli

import (
	_ "embed"
	"fmt"
	"regexp"
	"strconv"
	"strings"
	"sync"
)

// wordTable contains what -H adds to fields. The section of a field begins with "= NAME" and extends to the next one,
// including the empty line at its end. A line has the form
//
//	[7:2] : ?	Reserved
//
// with the bits, the format of their value, and its meaning. The formats are x and ? (hexadecimal; with ? the line is
// omitted if the value is zero), + (hexadecimal; the line is omitted if the whole field is zero), w (the whole field), z
// (a 0's based number), K (a temperature) and t (the text of the field). A suffix such as &0x3c is a mask that nvme-cli
// 2.13 applies to the value. In the meaning, {a|b|c} stands for a if the value is 0, b if it is 1, and c if it is
// greater; {2^} stands for that power of two, and {%} for the value itself.
//
//go:embed words.txt
var wordTable string

// Both are compiled on first use, since few commands use -H.
var (
	wordLine = sync.OnceValue(func() *regexp.Regexp {
		return regexp.MustCompile(`^(\s*\[(\d+):(\d+)\]\s*: )([xw?+zKt])(?:&(0x[0-9a-f]+))?(.*)$`)
	})
	wordChoice = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(`\{([^}]*)\}`) })
)

// spell prints what -H adds to a field with this name, or nothing.
func spell(b *strings.Builder, name string, f field) {
	_, rest, known := strings.Cut(wordTable, "= "+name+"\n")
	if !known {
		return
	}
	section, _, _ := strings.Cut(strings.TrimSuffix(rest, "\n"), "\n= ")
	for line := range strings.SplitSeq(section, "\n") {
		if m := wordLine().FindStringSubmatch(line); m != nil {
			spellBits(b, m, f)
			continue
		}
		b.WriteString(line + "\n")
	}
}

// spellBits prints one line, unless the line does not apply to the value.
func spellBits(b *strings.Builder, line []string, f field) {
	high, _ := strconv.Atoi(line[2])
	low, _ := strconv.Atoi(line[3])
	v := f.bits >> low & (1<<(high-low+1) - 1)
	meant := v
	if line[4] == "w" {
		v = f.bits
	}
	if mask, err := strconv.ParseUint(line[5], 0, 64); err == nil {
		v &= mask
	}
	how, shown := line[4], hexed(v)
	switch {
	case how == "?" && v == 0, how == "+" && f.bits == 0:
		return
	case how == "z":
		shown = fmt.Sprintf("%d (0's based)", v)
	case how == "K":
		shown = celsius(uint16(v))
	case how == "t":
		shown = f.text
	}
	means := wordChoice().ReplaceAllStringFunc(line[6], func(s string) string { return meaning(s[1:len(s)-1], meant) })
	b.WriteString(line[1] + shown + means + "\n")
}

// meaning returns the choice for a value.
func meaning(choices string, v uint64) string {
	switch choices {
	case "2^":
		return fmt.Sprint(uint64(1) << v)
	case "%":
		return fmt.Sprint(v)
	}
	all := strings.Split(choices, "|")
	return all[min(v, uint64(len(all)-1))]
}

// writeSpelled is writeFields with the additions of -H after each field.
func writeSpelled(b *strings.Builder, width int, fields []field, section func(field) string) {
	for _, f := range fields {
		writeFields(b, width, []field{f})
		spell(b, section(f), f)
	}
}

// bySameName returns the section of words.txt with the field's own name.
func bySameName(f field) string { return strings.TrimSpace(f.name) }
