package hostconfig

import (
	"strings"

	"github.com/nvmeof-go/nvmeof/nvmeof"
)

// assign parses a line "key = value" of the current section.
func (f *iniFile) assign(line int, s string) {
	key, value, ok := strings.Cut(s, "=")
	key, value = strings.TrimSpace(key), strings.TrimSpace(value)
	switch {
	case !ok || key == "":
		f.result.problem(f.name, line, "write key = value", "%s is neither a section nor a key", nvmeof.Printable(s))
		return
	case f.section == ignoredSection:
		return
	case f.section == "":
		f.fail(line, "move it into a section, for example [Host]", "%s is not in a section", nvmeof.Printable(key))
		return
	}
	inEndpoint := f.section == sectionDiscovery || f.section == sectionSubsystem
	if key == "controller" && inEndpoint {
		f.controller(line, value)
		return
	}
	o := findINI(key)
	if o == nil {
		f.result.warn(f.name, line, didYouMean(key, append(iniNames(), "controller")), "%s is ignored", nvmeof.Printable(key))
		return
	}
	if fix := f.misplaced(o); fix != "" {
		f.result.problem(f.name, line, fix, "%s does not belong in [%s]", o.Name, f.section)
		return
	}
	if value == "" && (o.class == classNQN) {
		f.result.problem(f.name, line, "give it a value, or remove it", "%s is empty", o.Name)
		return
	}
	f.set(f.options(), o, line, value)
}

// findINI returns the option with a name in the only spelling that this format accepts.
func findINI(key string) *Option {
	if o := find(key); o != nil && o.class != classCommand && key != "fast_io_fail_tmo" {
		return o
	}
	return nil
}

func iniNames() []string {
	return names(func(o *Option) string {
		if o.class == classCommand {
			return ""
		}
		return strings.ReplaceAll(o.Name, "_", "-")
	})
}

// misplaced says where an option belongs that is not allowed in the current section; "" if it is allowed.
func (f *iniFile) misplaced(o *Option) string {
	switch {
	case o.class == classAddress:
		return "addresses belong on a line controller = transport=rdma;traddr=..."
	case o.class == classIdentity && f.section != sectionHost:
		return "move it to [Host]"
	case o.class == classNQN && f.section != sectionDiscovery && f.section != sectionSubsystem:
		return "move it to [Subsystem] or [Discovery Controller]"
	}
	return ""
}

// options returns the options of the current section.
func (f *iniFile) options() Options {
	switch f.section {
	case sectionHost:
		return f.host
	case sectionDiscoveryDefaults:
		return f.discoveryDefaults
	case sectionIODefaults:
		return f.ioDefaults
	}
	return f.endpoints[len(f.endpoints)-1].options
}

// set checks and stores a value. An empty value selects the host's own default. An invalid host identity makes the
// whole file invalid.
func (f *iniFile) set(to Options, o *Option, line int, value string) bool {
	if value != "" {
		checked, err := o.check(value)
		if err != nil {
			f.result.problem(f.name, line, "", "%v", err)
			f.broken = f.broken || o.class == classIdentity
			return false
		}
		value = checked
	}
	to[o.Name] = value
	return true
}

// controller parses the value of a controller line: address and tunables, separated by semicolons. An unknown word is
// an error, since it might be part of the address.
func (f *iniFile) controller(line int, text string) {
	p := controllerLine{line, Options{}}
	for word := range strings.SplitSeq(text, ";") {
		key, value, ok := strings.Cut(word, "=")
		key, value = strings.TrimSpace(key), strings.TrimSpace(value)
		if strings.TrimSpace(word) == "" {
			continue
		}
		o := findINI(key)
		switch {
		case !ok || o == nil:
			f.result.problem(f.name, line, didYouMean(key, iniNames()), "%s is not a key of a controller", nvmeof.Printable(word))
			return
		case o.class == classSecurity:
			f.result.problem(f.name, line, "move it to the section: it applies to the host and subsystem, not to a single path", "%s is not allowed on a controller line", o.Name)
			return
		case o.class != classAddress && o.class != classTunable:
			f.result.problem(f.name, line, "move it to the section", "%s does not belong on a controller line", o.Name)
			return
		case o.class == classAddress && value == "":
			f.result.problem(f.name, line, "give it a value, or remove it", "%s is empty", o.Name)
			return
		}
		if _, twice := p.options[o.Name]; twice {
			f.result.problem(f.name, line, "write one line for each path", "%s is given twice", o.Name)
			return
		}
		if !f.set(p.options, o, line, value) {
			return
		}
	}
	e := &f.endpoints[len(f.endpoints)-1]
	e.paths = append(e.paths, p)
}
