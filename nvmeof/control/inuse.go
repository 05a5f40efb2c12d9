package control

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/nvmeof-go/nvmeof/nvmeof"
	"github.com/nvmeof-go/nvmeof/nvmeof/config"
)

// An InUseError reports a document that lacks something that connected hosts use, and was not applied: it may have
// been cut short, or be that of another target.
type InUseError struct {
	Uses []string

	erasing bool // the error is about data that would be erased
}

// maxUses is how many uses an error lists.
const maxUses = 5

func (e *InUseError) Error() string {
	shown := e.Uses[:min(len(e.Uses), maxUses)]
	before, after := "the document removes what connected hosts use: ", "; nothing was changed. Check that the document is complete; if this is intended, use --force (with the API ?force=true), or remove each by its name"
	if e.erasing {
		before, after = "connected hosts use what would be erased: ", "; nothing was changed. Withdraw their access first, or use ?force=true"
	}
	text := before + strings.Join(shown, "; ")
	if n := len(e.Uses) - len(shown); n > 0 {
		text += fmt.Sprintf("; and %d more", n)
	}
	return text + after
}

// usesLost returns what connected hosts use with the document have and would lose with want.
func usesLost(have, want *config.Document, connected []Controller) (lost []string) {
	before, after := subsystems(have), subsystems(want)
	stays, users := map[hostKey]bool{}, map[hostKey]bool{}
	for _, c := range connected {
		was, err := before.find(string(c.Subsystem))
		if c.Discovery || err == nil && isUnauthenticated(was, &c) {
			continue
		}
		user := hostKey{c.Subsystem, c.Host}
		users[user] = true
		if now, err := after.find(string(c.Subsystem)); err == nil && admits(now, c.Host) && now.On(c.Listener) && hasListener(want, c.Listener) {
			stays[user] = true // by at least one path
		}
	}
	byName := func(a, b hostKey) int { return cmp.Or(cmp.Compare(a.nqn, b.nqn), cmp.Compare(a.host, b.host)) }
	for _, user := range slices.SortedFunc(maps.Keys(users), byName) {
		was, err := before.find(string(user.nqn))
		if err != nil {
			continue // it is being removed
		}
		if !stays[user] {
			lost = append(lost, fmt.Sprintf("subsystem %s, of host %s", user.nqn, user.host))
			continue
		}
		now, _ := after.find(string(user.nqn))
		for _, n := range was.Namespaces {
			if _, err := namespaces(now).find(itoa(n.NSID)); err != nil && sees(was, user.host, n.NSID) {
				lost = append(lost, fmt.Sprintf("namespace %d of %s, of host %s", n.NSID, user.nqn, user.host))
			}
		}
	}
	return lost
}

// isUnauthenticated reports whether a controller has the name of a host with a key without having authenticated. Such a
// controller uses nothing.
func isUnauthenticated(s *config.Subsystem, c *Controller) bool {
	h, err := hosts(s).find(string(c.Host))
	return err == nil && h.KeyFile != "" && !c.Authenticated
}

func hasListener(d *config.Document, id int) bool {
	return slices.ContainsFunc(d.Listeners, func(l *config.Listener) bool { return l.ID == id })
}

// admits reports whether a host may connect to a subsystem.
func admits(s *config.Subsystem, host nvmeof.NQN) bool {
	_, err := hosts(s).find(string(host))
	return s.AllowAnyHost || err == nil
}

// sees reports whether a host may use a namespace.
func sees(s *config.Subsystem, host nvmeof.NQN, nsid int) bool {
	h, err := hosts(s).find(string(host))
	if err != nil {
		return s.AllowAnyHost
	}
	for _, r := range h.Namespaces {
		if r.NSID == nsid {
			return r.Access != "none"
		}
	}
	return h.Access != "none"
}
