package hostconfig

import (
	"strings"

	"github.com/nvmeof-go/nvmeof/nvmeof"
)

// Sections of nvme-fabrics.conf.
const (
	sectionHost              = "Host"
	sectionDiscoveryDefaults = "Discovery Controller Defaults"
	sectionIODefaults        = "I/O Controller Defaults"
	sectionDiscovery         = "Discovery Controller"
	sectionSubsystem         = "Subsystem"
)

var sectionNames = []string{sectionHost, sectionDiscoveryDefaults, sectionIODefaults, sectionDiscovery, sectionSubsystem}

// ParseFabricsConf parses nvme-fabrics.conf and its drop-ins. The value of an option comes from the controller line,
// else from its section, else from section Host, else from the file's defaults for the kind of controller, else from
// those in main. An empty value selects the host's own default. A drop-in with a section Host connects as another
// host, whose name the section must contain.
func ParseFabricsConf(main File, dropIns []File) (r Result) {
	base := parseINI(main, false)
	files := []*iniFile{base}
	for _, f := range dropIns {
		files = append(files, parseINI(f, true))
	}
	clashes(files)
	for _, f := range files {
		r.Warnings = append(r.Warnings, f.result.Warnings...)
		r.Problems = append(r.Problems, f.result.Problems...)
		if f.broken {
			continue
		}
		for i := range f.endpoints {
			f.expand(&f.endpoints[i], base, &r)
		}
	}
	return r
}

// clashes marks as broken the files that define the same host as another file: with the same NQN, or with the same
// identifier beside another NQN, which targets would take for one host.
func clashes(files []*iniFile) {
	byNQN, byID := map[string]*iniFile{}, map[string]*iniFile{}
	for _, f := range files {
		nqn, id := f.host["hostnqn"], f.host["hostid"]
		if other := byNQN[nqn]; nqn != "" && other != nil {
			f.fail(f.hostLine, "each host needs a single file: move the sections there, or use another name", "%s has the same hostnqn", other.name)
		}
		if other := byID[id]; id != "" && other != nil {
			f.fail(f.hostLine, "give each host its own identifier", "%s has the same hostid: targets would treat both as one host", other.name)
		}
		byNQN[nqn], byID[id] = f, f
	}
}

// expand makes an entry of each controller line.
func (f *iniFile) expand(e *endpoint, base *iniFile, r *Result) {
	defaults := func(f *iniFile) Options {
		if e.discovery {
			return f.discoveryDefaults
		}
		return f.ioDefaults
	}
	if len(e.paths) == 0 {
		r.problem(f.name, e.line, "add controller = transport=rdma;traddr=192.0.2.1", "the section has no controller")
	}
	for _, p := range e.paths {
		all := Options{}
		for _, from := range []Options{defaults(base), defaults(f), f.host, e.options, p.options} {
			for name, v := range from {
				all[name] = v
			}
		}
		for name, v := range all {
			if v == "" { // the host's own default
				delete(all, name)
			}
		}
		if e.discovery {
			all["persistent"] = "true"
		}
		r.enter(Entry{File: f.name, Line: p.line, Discovery: e.discovery, Options: all})
	}
}

// An iniFile is the parsed content of one file.
type iniFile struct {
	name   string
	result Result
	broken bool // the whole file is rejected

	hostLine                      int // 0: no section Host
	host                          Options
	discoveryDefaults, ioDefaults Options
	endpoints                     []endpoint

	section string // the current one; "": none yet, "-": an ignored one
}

// An endpoint is the section of a subsystem or a discovery controller.
type endpoint struct {
	line      int
	discovery bool
	options   Options
	paths     []controllerLine
}

// A controllerLine is one path.
type controllerLine struct {
	line    int
	options Options
}

// fail records a problem for which the whole file is rejected.
func (f *iniFile) fail(line int, fix, format string, args ...any) {
	f.broken = true
	f.result.problem(f.name, line, fix, format, args...)
}

const ignoredSection = "-"

func parseINI(in File, dropIn bool) *iniFile {
	f := &iniFile{name: in.Name, host: Options{}, discoveryDefaults: Options{}, ioDefaults: Options{}}
	if !f.result.isText(in.Name, in.Text) {
		f.broken = true
		return f
	}
	line := 0
	for s := range strings.SplitSeq(string(in.Text), "\n") {
		line++
		s = strings.TrimSpace(withoutComment(s))
		switch {
		case s == "":
		case s[0] == '[':
			f.enterSection(line, s)
		default:
			f.assign(line, s)
		}
	}
	if dropIn && f.hostLine > 0 && f.host["hostnqn"] == "" {
		f.fail(f.hostLine, "add hostnqn = ...", "a drop-in with a [Host] section needs the NQN of that host")
	}
	return f
}

// withoutComment removes a comment: a # at the start of the line or after a space.
func withoutComment(s string) string {
	for i := range len(s) {
		if s[i] == '#' && (i == 0 || s[i-1] == ' ' || s[i-1] == '\t') {
			return s[:i]
		}
	}
	return s
}

func (f *iniFile) enterSection(line int, s string) {
	name, ok := strings.CutSuffix(s[1:], "]")
	if !ok {
		f.fail(line, "close it: [Subsystem]", "%s is not a section", nvmeof.Printable(s))
		return
	}
	f.section = name
	switch name {
	case sectionHost:
		if f.hostLine > 0 {
			f.fail(line, "each host needs its own file: move it to a drop-in", "there is a second [Host] section")
		}
		f.hostLine = line
	case sectionDiscoveryDefaults, sectionIODefaults:
	case sectionDiscovery, sectionSubsystem:
		f.endpoints = append(f.endpoints, endpoint{line: line, discovery: name == sectionDiscovery, options: Options{}})
	default:
		f.result.warn(f.name, line, didYouMean(name, sectionNames), "section [%s] is ignored", nvmeof.Printable(name))
		f.section = ignoredSection
	}
}
