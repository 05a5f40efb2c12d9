package config

import (
	"fmt"
	"strings"

	"github.com/google/uuid"

	"github.com/nvmeof-go/nvmeof/nvmeof"
)

// eachName calls f with each NQN of a document and the path of its field.
func (doc *Document) eachName(f func(n nvmeof.NQN, path string)) {
	f(doc.DiscoveryNQN, "discovery-nqn")
	for i, s := range doc.Subsystems {
		path := fmt.Sprintf("subsystems[%d]", i)
		f(s.NQN, path+".nqn")
		for j, h := range s.Hosts {
			f(h.NQN, fmt.Sprintf("%s.hosts[%d].nqn", path, j))
		}
	}
	for i, x := range doc.Referrals {
		f(x.NQN, fmt.Sprintf("referrals[%d].nqn", i))
	}
}

// DoubtNames reports NQNs that do not have the form that the specification requires, unless known has them already;
// known may be nil. Such names work if the peer only compares them, as Linux does.
func (doc *Document) DoubtNames(known *Document) (doubts Problems) {
	old := map[nvmeof.NQN]bool{"": true}
	if known != nil {
		known.eachName(func(n nvmeof.NQN, _ string) { old[n] = true })
	}
	doc.eachName(func(n nvmeof.NQN, path string) {
		if old[n] {
			return
		}
		if text, fix := nameWarning(string(n)); text != "" {
			doubts = append(doubts, Problem{Path: path, Text: text, Fix: fix})
		}
	})
	return doubts
}

// nameWarning returns what is doubtful about a name, and what may have been meant.
func nameWarning(n string) (text, fix string) {
	_, err := nvmeof.ParseNQN(n)
	_, notUUID := uuid.Parse(n)
	switch {
	case strings.HasSuffix(n, ",") || strings.Contains(n, ",nqn."): // the specification does not forbid it
		return nvmeof.Printable(n) + ": a comma is part of the name", "give each host, or subsystem, an entry of its own"
	case err == nil:
		return "", ""
	case n == "*" || n == "any" || n == "all":
		return err.Error(), "this is the name of one host; to allow every host, use allow-any-host"
	case notUUID == nil:
		return err.Error(), "a host identifier is not an NQN; did you mean nqn.2014-08.org.nvmexpress:uuid:" + n + "? On a Linux host: cat /etc/nvme/hostnqn"
	}
	return err.Error(), "rename it, since some implementations reject such names"
}
