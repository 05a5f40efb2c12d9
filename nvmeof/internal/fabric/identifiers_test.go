package fabric

import (
	"math/rand/v2"
	"testing"

	"github.com/nvmeof-go/nvmeof/capsule"
)

// TestIdentifiers compares the table with a map.
func TestIdentifiers(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 2))
	commands := make([]Command, 20)
	var table identifiers
	table.init(len(commands))
	owner := map[capsule.CID]*Command{}
	for range 100_000 {
		c := &commands[rng.IntN(len(commands))]
		if owner[c.SQE.CID] == c {
			table.remove(c)
			delete(owner, c.SQE.CID)
			continue
		}
		table.remove(c) // was not added
		c.SQE.CID = capsule.CID(rng.IntN(4) << 14 >> rng.IntN(15))
		free := owner[c.SQE.CID] == nil
		if (table.add(c) == nil) != free {
			t.Fatalf("identifier %#x: added is %v", c.SQE.CID, !free)
		}
		if free {
			owner[c.SQE.CID] = c
		}
	}
}
