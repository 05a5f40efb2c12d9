package nvmecli

import (
	_ "embed"
	"fmt"
	"regexp"
	"strconv"
	"strings"
	"sync"
)

// wordTable is what -H says of fields: a section for each, "= NAME", up to the next,
// its last empty line included. In its lines stand
//
//	[7:2] : ?	Reserved
//
// the bits, how their value is shown, and what it means. How is x in hexadecimal, ? the
// same where it is not zero, + the same where the field is not zero, w the whole field, z as
// a number from zero, K as a temperature, t as the line of the field; &0x3c is a mask that nvme-cli 2.13
// puts over it. {a|b|c} is a where the value is 0, b at 1, c at 2 and more; {2^} that power
// of two, {%} the value itself.
//
//go:embed words.txt
var wordTable string

// Both are compiled when they are first used, since few commands get -H.
var (
	wordLine = sync.OnceValue(func() *regexp.Regexp {
		return regexp.MustCompile(`^(\s*\[(\d+):(\d+)\]\s*: )([xw?+zKt])(?:&(0x[0-9a-f]+))?(.*)$`)
	})
	wordChoice = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(`\{([^}]*)\}`) })
)

// spell writes what -H says of a field with this name, or nothing.
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

// spellBits writes one line, if it stands there for this value.
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

// meaning is one of several.
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

// writeSpelled is writeFields with what -H says after each.
func writeSpelled(b *strings.Builder, width int, fields []field, section func(field) string) {
	for _, f := range fields {
		writeFields(b, width, []field{f})
		spell(b, section(f), f)
	}
}

// bySameName finds words under the field's own name.
func bySameName(f field) string { return strings.TrimSpace(f.name) }
