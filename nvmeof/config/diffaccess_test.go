package config

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/nvmeof-go/nvmeof/nvmeof"
)

// A use is the right of a host to what a namespace exports.
type use struct {
	subsystem, host nvmeof.NQN
	path            Path
	access          Access
}

// uses returns the uses that a document allows to some hosts, one of which is named nowhere.
func uses(d *Document) map[use]bool {
	out := map[use]bool{}
	for _, s := range d.Subsystems {
		for _, host := range []nvmeof.NQN{"h1", "h2", "h3", "nobody"} {
			for _, n := range s.Namespaces {
				switch a := accessOf(s, host, n.NSID); a {
				case "write":
					if !n.ReadOnly {
						out[use{s.NQN, host, n.Path(), "write"}] = true
					}
					fallthrough
				case "read":
					out[use{s.NQN, host, n.Path(), "read"}] = true
				}
			}
		}
	}
	return out
}

// accessOf returns the right of a host to a namespace.
func accessOf(s *Subsystem, host nvmeof.NQN, nsid int) Access {
	for _, h := range s.Hosts {
		if h.NQN != host {
			continue
		}
		for _, r := range h.Namespaces {
			if r.NSID == nsid {
				return r.Access
			}
		}
		if h.Access != "" {
			return h.Access
		}
		return "write"
	}
	if s.AllowAnyHost {
		return "write"
	}
	return "none"
}

// carryOut makes a change in a document, as a target does.
func carryOut(d *Document, c Change) {
	at := func() *Subsystem {
		return d.Subsystems[slices.IndexFunc(d.Subsystems, func(s *Subsystem) bool { return s.NQN == c.Subsystem })]
	}
	switch c.Kind {
	case KindSubsystem:
		if c.Op == Remove {
			d.Subsystems = slices.DeleteFunc(d.Subsystems, func(s *Subsystem) bool { return string(s.NQN) == c.Name })
		} else if c.Op == Add {
			bare := *c.New.(*Subsystem)
			d.Subsystems = append(d.Subsystems, &bare)
		}
	case KindVisibility:
		at().AllowAnyHost = c.New.(*Subsystem).AllowAnyHost
	case KindHost:
		s := at()
		s.Hosts = slices.DeleteFunc(s.Hosts, func(h *Host) bool { return string(h.NQN) == c.Name })
		if h, is := c.New.(*Host); is {
			s.Hosts = append(s.Hosts, h)
		}
	case KindNamespace:
		s := at()
		s.Namespaces = slices.DeleteFunc(s.Namespaces, func(n *Namespace) bool { return fmt.Sprint(n.NSID) == c.Name })
		if n, is := c.New.(*Namespace); is {
			s.Namespaces = append(s.Namespaces, n)
		}
	}
}

// TestNobodyMeetsAnothersNamespace: at no time during a change, or while it is undone, has a host a right that it
// has neither before nor after it, such as to a namespace that gets the NSID of one that it could use.
func TestNobodyMeetsAnothersNamespace(t *testing.T) {
	documents := []string{
		"hosts: [{nqn: h1, access: none, namespaces: [{nsid: 1, access: write}]}], namespaces: [{nsid: 1, file: {path: /a}}]",
		"hosts: [{nqn: h1, access: none}, {nqn: h2, access: none, namespaces: [{nsid: 1, access: write}]}], namespaces: [{nsid: 1, file: {path: /b}}]",
		"hosts: [{nqn: h1, access: none, namespaces: [{nsid: 1, access: read}]}, {nqn: h2}], namespaces: [{nsid: 1, file: {path: /b}}, {nsid: 2, file: {path: /a}}]",
		"hosts: [{nqn: h1, namespaces: [{nsid: 1, access: none}]}, {nqn: h2, access: none, namespaces: [{nsid: 1, access: read}]}], namespaces: [{nsid: 1, file: {path: /c}}, {nsid: 3, file: {path: /a}}]",
		"hosts: [{nqn: h1, access: none, namespaces: [{nsid: 2, access: write}]}, {nqn: h3, access: read}], namespaces: [{nsid: 1, file: {path: /b}}, {nsid: 2, file: {path: /c}}]",
		"allow-any-host: true, namespaces: [{nsid: 1, file: {path: /a}}]",
		"allow-any-host: true, hosts: [{nqn: h1, access: none}, {nqn: h2, access: read}], namespaces: [{nsid: 1, file: {path: /b}}]",
		"allow-any-host: true, hosts: [{nqn: h1, namespaces: [{nsid: 1, access: none}]}, {nqn: h3, access: none}], namespaces: [{nsid: 1, file: {path: /c}}, {nsid: 2, file: {path: /a}}]",
		"hosts: [{nqn: h2}], namespaces: [{nsid: 2, file: {path: /b}}]",
		"namespaces: [{nsid: 1, file: {path: /c}}]",
		"hosts: [{nqn: h1}, {nqn: h2, access: read}], namespaces: [{nsid: 1, read-only: true, file: {path: /a}}]",
		"hosts: [{nqn: h1, access: read}, {nqn: h2, access: none}], namespaces: [{nsid: 1, file: {path: /a}}]",
	}
	parse := func(text string) *Document {
		return parsed(t, "version: 1\nsubsystems: [{nqn: a, "+text+"}]\n")
	}
	for _, from := range documents {
		for _, to := range documents {
			before, after := uses(parse(from)), uses(parse(to))
			now, changes := parse(from), Diff(parse(from), parse(to))
			check := func(c Change) {
				t.Helper()
				for u := range uses(now) {
					if !before[u] && !after[u] {
						t.Errorf("%s\n%s\nafter %s: %+v, of\n%s", from, to, c, u, strings.Join(show(changes), "\n"))
					}
				}
			}
			for _, c := range changes {
				carryOut(now, c)
				check(c)
			}
			if got := uses(now); !maps.Equal(got, after) {
				t.Errorf("%s\n%s\ncomes to %v", from, to, got)
			}
			for _, c := range slices.Backward(changes) {
				carryOut(now, c.Inverse())
				check(c.Inverse())
			}
			if got := uses(now); !maps.Equal(got, before) {
				t.Errorf("%s\n%s\nis taken back to %v", from, to, got)
			}
		}
	}
}
