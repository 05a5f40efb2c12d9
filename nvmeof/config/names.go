package config

import (
	"fmt"

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

// DoubtNames finds names that are not of the form that the specification asks for, and
// that known does not have; it may be nil. They work where the other side only compares
// names, as Linux does.
func (doc *Document) DoubtNames(known *Document) (doubts Problems) {
	old := map[nvmeof.NQN]bool{"": true}
	if known != nil {
		known.eachName(func(n nvmeof.NQN, _ string) { old[n] = true })
	}
	doc.eachName(func(n nvmeof.NQN, path string) {
		if old[n] {
			return
		}
		if _, err := nvmeof.ParseNQN(string(n)); err != nil {
			doubts = append(doubts, Problem{Path: path, Text: err.Error(), Fix: "rename it, since some implementations take no other"})
		}
	})
	return doubts
}
