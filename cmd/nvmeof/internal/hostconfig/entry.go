package hostconfig

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/nvmeof-go/nvmeof/nvmeof"
	"github.com/nvmeof-go/nvmeof/nvmeof/config"
)

// Options maps the long names of nvme connect's options, without dashes, to their values. Flags are "true" or "false",
// and numbers are decimal. All values have been checked.
type Options map[string]string

// An Entry is a controller that a file wants connected.
type Entry struct {
	File      string
	Line      int
	Discovery bool // a discovery controller, whose log lists what to connect to
	Options   Options
}

// Where returns "FILE:LINE".
func (e *Entry) Where() string { return fmt.Sprintf("%s:%d", e.File, e.Line) }

// NQN returns the NQN of the subsystem to connect to; for a discovery controller without one, the well-known discovery
// NQN.
func (e *Entry) NQN() string {
	if n := e.Options["nqn"]; n != "" || !e.Discovery {
		return n
	}
	return string(nvmeof.DiscoveryNQN)
}

// String describes the entry without its secrets.
func (e *Entry) String() string {
	var b strings.Builder
	b.WriteString(e.Where() + ":")
	for _, name := range slices.Sorted(maps.Keys(e.Options)) {
		if o := find(name); o != nil && o.Secret {
			continue
		}
		b.WriteString(" " + name + "=" + nvmeof.Printable(e.Options[name]))
	}
	return b.String()
}

// A Skipped entry is valid, but not for this host.
type Skipped struct {
	File string
	Line int
	Why  string
}

func (s *Skipped) String() string { return fmt.Sprintf("%s:%d: %s", s.File, s.Line, s.Why) }

// A Result is the content of files, in their order.
type Result struct {
	Entries  []Entry
	Skipped  []Skipped
	Warnings config.Problems
	Problems config.Problems
}

// Err returns [Result].Problems, or nil if there are none.
func (r *Result) Err() error {
	if len(r.Problems) == 0 {
		return nil
	}
	return r.Problems
}

// add appends the result of another file.
func (r *Result) add(o Result) {
	r.Entries = append(r.Entries, o.Entries...)
	r.Skipped = append(r.Skipped, o.Skipped...)
	r.Warnings = append(r.Warnings, o.Warnings...)
	r.Problems = append(r.Problems, o.Problems...)
}

func (r *Result) problem(file string, line int, fix, format string, args ...any) {
	r.Problems = append(r.Problems, problem(file, line, fix, format, args...))
}

func (r *Result) warn(file string, line int, fix, format string, args ...any) {
	r.Warnings = append(r.Warnings, problem(file, line, fix, format, args...))
}

func problem(file string, line int, fix, format string, args ...any) config.Problem {
	p := config.Problem{File: file, Text: fmt.Sprintf(format, args...), Fix: fix}
	if line > 0 {
		p.At = config.Position{Line: line, Column: 1}
	}
	return p
}

// enter adds an entry whose options have been checked individually, if they are valid together and apply to this host.
func (r *Result) enter(e Entry) {
	transport := e.Options["transport"]
	switch {
	case transport == "":
		r.problem(e.File, e.Line, "use transport=rdma", "the transport is missing")
		return
	case transport != "rdma":
		r.Skipped = append(r.Skipped, Skipped{e.File, e.Line, "transport " + nvmeof.Printable(transport) + " is not supported, only rdma"})
		return
	case e.Options["traddr"] == "":
		r.problem(e.File, e.Line, "give the controller's IP address, as in traddr=192.0.2.1", "traddr is missing")
		return
	}
	if _, err := nvmeof.ParseAddress(e.Options["traddr"], e.Options["trsvcid"]); err != nil {
		r.problem(e.File, e.Line, "names are not looked up: give the IP address", "%v", err)
		return
	}
	if !r.usable(&e) {
		return
	}
	if !e.Discovery && e.Options["nqn"] == "" {
		r.problem(e.File, e.Line, "nvmeof discover lists the subsystems", "nqn is missing")
		return
	}
	r.Entries = append(r.Entries, e)
}

// usable rejects an entry with options that are not supported over RDMA, and removes options that have no effect.
func (r *Result) usable(e *Entry) bool {
	for _, name := range slices.Sorted(maps.Keys(e.Options)) {
		o := find(name)
		if o == nil || !o.asks(e.Options[name]) {
			continue
		}
		switch {
		case o.refuse != "":
			r.problem(e.File, e.Line, "remove it", "%s: %s", name, o.refuse)
			return false
		case o.ignore != "":
			r.warn(e.File, e.Line, "", "%s is ignored: %s", name, o.ignore)
			delete(e.Options, name)
		}
	}
	return true
}
