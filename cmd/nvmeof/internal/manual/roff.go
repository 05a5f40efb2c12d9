package manual

import (
	"strings"

	"github.com/spf13/pflag"
)

// roff is a page in the making.
type roff struct{ b strings.Builder }

// escapes are what would be no text: the escape character, and hyphens, which are else
// printed as others than those that a shell knows.
var escapes = strings.NewReplacer(`\`, `\e`, "-", `\-`, "'", `\(aq`, "^", `\(ha`, "~", `\(ti`, "`", `\(ga`)

// line adds a line of text, which begins no request.
func (r *roff) line(s string) {
	s = escapes.Replace(s)
	if strings.HasPrefix(s, ".") {
		s = `\&` + s
	}
	r.b.WriteString(s + "\n")
}

// macro adds a call, each argument as one.
func (r *roff) macro(name string, args ...string) {
	r.b.WriteString("." + name)
	for _, a := range args {
		r.b.WriteString(` "` + strings.ReplaceAll(escapes.Replace(a), `"`, `""`) + `"`)
	}
	r.b.WriteByte('\n')
}

// text adds lines that are filled.
func (r *roff) text(s string) {
	for line := range strings.Lines(s) {
		if line = strings.TrimSpace(line); line != "" {
			r.line(line)
		}
	}
}

// verbatim adds lines as they are.
func (r *roff) verbatim(s string) {
	r.macro("nf")
	for line := range strings.Lines(s) {
		r.line(strings.TrimRight(line, "\n"))
	}
	r.macro("fi")
}

// paragraphs adds a text whose paragraphs have empty lines between them. Those in columns,
// or with lines that are indented, stay as they are.
func (r *roff) paragraphs(s string) {
	for i, p := range strings.Split(strings.Trim(s, "\n"), "\n\n") {
		if i > 0 {
			r.macro("PP")
		}
		if strings.HasPrefix(p, " ") || strings.Contains(p, "  ") || strings.Contains(p, "\t") {
			r.verbatim(p)
		} else {
			r.text(p)
		}
	}
}

// options lists flags as --help does.
func (r *roff) options(title string, flags *pflag.FlagSet) {
	if !flags.HasAvailableFlags() {
		return
	}
	r.macro("SH", title)
	flags.VisitAll(func(f *pflag.Flag) {
		if f.Hidden || f.Deprecated != "" {
			return
		}
		value, usage := pflag.UnquoteUsage(f)
		tag := "--" + f.Name
		if f.Shorthand != "" {
			tag = "-" + f.Shorthand + ", " + tag
		}
		r.macro("TP")
		r.macro("B", strings.TrimSpace(tag+" "+value))
		r.text(usage + byDefault(f))
	})
}

// byDefault is what --help says of a flag's default: nothing of those that say nothing.
func byDefault(f *pflag.Flag) string {
	switch f.DefValue {
	case "", "0", "0s", "false", "[]", "<nil>":
		return ""
	}
	return " (default " + f.DefValue + ")"
}
