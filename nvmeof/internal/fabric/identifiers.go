package fabric

import (
	"math/bits"

	"github.com/nvmeof-go/nvmeof/capsule"
)

// identifiers finds unanswered commands by identifier: a hash table with as many lists as there are contexts.
type identifiers struct {
	heads []*Command
	mask  capsule.CID
}

func (t *identifiers) init(contexts int) {
	n := hashSize(contexts)
	t.heads, t.mask = make([]*Command, n), capsule.CID(n-1)
}

// hashSize returns the number of lists of a table for that many contexts.
func hashSize(contexts int) int { return min(1<<bits.Len(uint(contexts-1)), 1<<16) }

// add adds the command, or returns the command that already has its identifier.
func (t *identifiers) add(c *Command) (other *Command) {
	head := &t.heads[c.SQE.CID&t.mask]
	for other = *head; other != nil; other = other.sameHash {
		if other.SQE.CID == c.SQE.CID {
			return other
		}
	}
	c.sameHash, *head = *head, c
	return nil
}

// remove removes the command, if it was added.
func (t *identifiers) remove(c *Command) {
	for at := &t.heads[c.SQE.CID&t.mask]; *at != nil; at = &(*at).sameHash {
		if *at == c {
			*at, c.sameHash = c.sameHash, nil
			return
		}
	}
}
