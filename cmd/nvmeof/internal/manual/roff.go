package manual

import (
	"strings"

	"github.com/spf13/pflag"
)

// roff is a page under construction.
type roff struct{ b strings.Builder }

// escapes replaces what roff would not print as it is: the escape character, and characters that are otherwise printed
// as typographic ones that a shell does not know.
var escapes = strings.NewReplacer(`\`, `\e`, "-", `\-`, "'", `\(aq`, "^", `\(ha`, "~", `\(ti`, "`", `\(ga`)

// line adds a line of text, and escapes a leading dot, which would make it a request.
func (r *roff) line(s string) {
	s = escapes.Replace(s)
	if strings.HasPrefix(s, ".") {
		s = `\&` + s
	}
	r.b.WriteString(s + "\n")
}

// macro adds a macro call, with each argument quoted.
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

// verbatim adds lines without filling.
func (r *roff) verbatim(s string) {
	r.macro("nf")
	for line := range strings.Lines(s) {
		r.line(strings.TrimRight(line, "\n"))
	}
	r.macro("fi")
}

// paragraphs adds text whose paragraphs are separated by empty lines. Paragraphs with columns or indented lines are
// not filled.
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

// byDefault returns what --help shows for a flag's default; "" if the default is not informative.
func byDefault(f *pflag.Flag) string {
	switch f.DefValue {
	case "", "0", "0s", "false", "[]", "<nil>":
		return ""
	}
	return " (default " + f.DefValue + ")"
}
