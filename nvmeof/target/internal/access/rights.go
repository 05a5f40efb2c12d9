package access

import (
	"fmt"

	"github.com/nvmeof-go/nvmeof/capsule"
)

// A Level is a host's right to a namespace.
type Level uint8

const (
	Write Level = iota // read and write
	Read               // commands that change blocks fail
	None               // the namespace does not exist for the host
)

func (l Level) String() string {
	switch l {
	case Write:
		return "write"
	case Read:
		return "read"
	case None:
		return "none"
	}
	return fmt.Sprintf("access %d", uint8(l))
}

// Rights has the levels of a host in a form for fast lookup. A nil Rights allows everything.
type Rights struct {
	rest  Level
	named []Level // by NSID
}

// NewRights returns rights with the level rest for every namespace, present or future, that is not in named.
func NewRights(rest Level, named map[capsule.NSID]Level) *Rights {
	r := &Rights{rest: rest}
	for id := range named {
		for len(r.named) <= int(id) {
			r.named = append(r.named, rest)
		}
	}
	for id, l := range named {
		r.named[id] = l
	}
	return r
}

// To returns the level for a namespace.
func (r *Rights) To(id capsule.NSID) Level {
	switch {
	case r == nil:
		return Write
	case uint64(id) < uint64(len(r.named)):
		return r.named[id]
	}
	return r.rest
}

// See reports whether the namespace exists for the host.
func (r *Rights) See(id capsule.NSID) bool { return r.To(id) != None }
