package config

import (
	"strings"
	"testing"
)

// TestDoubtfulHosts: a text that is mistaken for the name of a host causes a warning that says what was meant.
func TestDoubtfulHosts(t *testing.T) {
	const host, id = "nqn.2014-08.org.nvmexpress:uuid:", "22222222-2222-3333-4444-555555555555"
	for name, want := range map[string]string{
		host + id:               "",
		"nqn.2014-08.org.x:a,b": "",
		"nqn.2014-08.org.x:a,nqn.2014-08.org.x:b": "a comma is part of the name; give each host",
		host + id + ",": "a comma is part of the name",
		"*":             "to allow every host, use allow-any-host",
		"any":           "to allow every host, use allow-any-host",
		id:              "a host identifier is not an NQN; did you mean " + host + id + "?",
		"h1":            "rename it",
	} {
		_, warnings, err := Parse("f", []byte("version: 1\nsubsystems:\n  - nqn: nqn.2014-08.org.x:s\n    hosts: [{nqn: \""+name+"\"}]\n"))
		if err != nil {
			t.Error(err)
		}
		got := ""
		for _, w := range warnings {
			if strings.HasSuffix(w.Path, "hosts[0].nqn") {
				got = w.String()
			}
		}
		if want == "" && got != "" || !strings.Contains(got, want) {
			t.Errorf("%s: %q, want %q", name, got, want)
		}
	}
}
