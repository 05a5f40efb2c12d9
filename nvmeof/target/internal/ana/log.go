package ana

import "github.com/nvmeof-go/nvmeof/capsule"

// Changes counts the changes of a subsystem's groups other than those of their states: namespaces that were added,
// removed or moved.
type Changes struct {
	groups [Away + 1]uint64
	total  uint64
}

// Note counts a change of a group.
func (c *Changes) Note(g capsule.ANAGroup) {
	c.groups[g]++
	c.total++
}

// Advance raises the counts by n, so that they continue from counts up to n that hosts may have seen.
func (c *Changes) Advance(n uint64) {
	for g := range c.groups {
		c.groups[g] += n
	}
	c.total += n
}

// Members has the namespaces that a host sees, ascending, by group.
type Members [Away + 1][]capsule.NSID

// Add adds a namespace to its group. Namespaces must be added in ascending order.
func (m *Members) Add(g capsule.ANAGroup, id capsule.NSID) { m[g] = append(m[g], id) }

// Count returns the change count of a page.
func Count(path *Table, regroups *Changes) uint64 { return path.total + regroups.total }

// Log returns the ANA log page (NVMe base 2.0, 5.16.1.13), without the namespaces if groupsOnly is set. Its change
// counts never decrease as long as the counts of path and regroups do not.
func Log(path *Table, regroups *Changes, members *Members, groupsOnly bool) []byte {
	b := make([]byte, capsule.ANALogHeaderSize)
	head := capsule.ANALogHeader{CHGCNT: Count(path, regroups)}
	for g, ids := range members {
		if len(ids) == 0 {
			continue
		}
		if groupsOnly {
			ids = nil
		}
		head.NGRPS++
		at := len(b)
		b = append(b, make([]byte, capsule.ANADescriptorHeader+4*len(ids))...)
		capsule.ANADescriptor{
			Group: capsule.ANAGroup(g), NNSIDS: uint32(len(ids)), State: path.state[g],
			CHGCNT: path.changes[g] + regroups.groups[g],
		}.Encode(b[at:])
		capsule.PutNSIDs(b[at+capsule.ANADescriptorHeader:], ids)
	}
	head.Encode(b)
	return b
}
