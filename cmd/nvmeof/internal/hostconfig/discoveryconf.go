package hostconfig

import (
	"strings"

	"github.com/nvmeof-go/nvmeof/nvmeof"
)

// ParseDiscoveryConf parses a discovery.conf. Each line contains the options of one nvme discover, "-t rdma -a
// 192.0.2.1" or "--transport=rdma --traddr=192.0.2.1". A # starts a comment.
func ParseDiscoveryConf(file string, text []byte) (r Result) {
	if !r.isText(file, text) {
		return r
	}
	line := 0
	for s := range strings.SplitSeq(string(text), "\n") {
		line++
		s, _, _ = strings.Cut(s, "#")
		if words := strings.Fields(s); len(words) > 0 {
			if o, ok := r.line(file, line, words); ok {
				r.enter(Entry{File: file, Line: line, Discovery: true, Options: o})
			}
		}
	}
	return r
}

// line parses the options of a line.
func (r *Result) line(file string, line int, words []string) (Options, bool) {
	all := Options{}
	for len(words) > 0 {
		word := words[0]
		words = words[1:]
		o, value, given := splitOption(word)
		if o == nil {
			fix := "options look like --traddr=192.0.2.1"
			if name, ok := strings.CutPrefix(word, "--"); ok {
				name, _, _ = strings.Cut(name, "=")
				fix = didYouMean(name, names(func(o *Option) string { return o.Name }))
			} else if word == "-d" {
				fix = "write --disable-sqflow"
			}
			r.problem(file, line, fix, "no such option: %s", nvmeof.Printable(word))
			return nil, false
		}
		switch {
		case given:
		case o.kind == kindFlag:
			value = "true"
		case len(words) == 0:
			r.problem(file, line, "", "--%s needs a value", o.Name)
			return nil, false
		default:
			value, words = words[0], words[1:]
		}
		checked, err := o.check(value)
		if err != nil {
			r.problem(file, line, "", "%v", err)
			return nil, false
		}
		all[o.Name] = checked
	}
	return all, true
}

// splitOption splits "--name=value", "--name", "-xvalue" and "-x".
func splitOption(word string) (o *Option, value string, given bool) {
	if name, ok := strings.CutPrefix(word, "--"); ok {
		name, value, given = strings.Cut(name, "=")
		return find(name), value, given
	}
	if len(word) < 2 || word[0] != '-' {
		return nil, "", false
	}
	value = strings.TrimPrefix(word[2:], "=")
	return findShort(word[1]), value, len(word) > 2
}

// Maximum size of a file in bytes.
const maxText = 4 << 20

// isText reports a problem if a file is too large or not text.
func (r *Result) isText(file string, text []byte) bool {
	switch {
	case len(text) > maxText:
		r.problem(file, 1, "is it the right file?", "%d bytes are too long for a configuration", len(text))
	case !validText(text):
		r.problem(file, 1, "is it the right file?", "it is not UTF-8 text")
	default:
		return true
	}
	return false
}
