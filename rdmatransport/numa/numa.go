// Package numa says at which of the machine's NUMA nodes a device is, and how far nodes
// are from each other, by what Linux shows below /sys.
package numa

import (
	"fmt"
	"io/fs"
	"path"
	"strconv"
	"strings"
	"unsafe"

	"golang.org/x/sys/unix"
)

// A Node is a NUMA node, counted from 1; 0 is one that nobody knows.
type Node int

// Distances of a node to itself, by definition (ACPI 6.5, 5.2.17), and the most that there
// is.
const (
	Local       = 10
	unreachable = 255
)

// OfDevice is the node of a device, by its folder below sys.
func OfDevice(sys fs.FS, device string) Node {
	b, err := fs.ReadFile(sys, path.Join(device, "numa_node"))
	if err != nil {
		return 0
	}
	n, err := strconv.Atoi(strings.TrimSpace(string(b)))
	if err != nil || n < 0 { // -1: the firmware does not say
		return 0
	}
	return Node(n + 1)
}

// maxLayers bounds how many interfaces lie over each other: a VLAN on a bond, say.
const maxLayers = 4

// OfInterface is the node of a network interface, or of those below it if they are at the
// same one.
func OfInterface(sys fs.FS, name string) Node { return ofInterface(sys, name, maxLayers) }

func ofInterface(sys fs.FS, name string, layers int) Node {
	dir := path.Join("class/net", name)
	if n := OfDevice(sys, path.Join(dir, "device")); n != 0 || layers == 0 {
		return n
	}
	entries, err := fs.ReadDir(sys, dir)
	if err != nil {
		return 0
	}
	var all Node
	for _, e := range entries {
		lower, ok := strings.CutPrefix(e.Name(), "lower_")
		if !ok {
			continue
		}
		n := ofInterface(sys, lower, layers-1)
		if n == 0 || all != 0 && n != all {
			return 0
		}
		all = n
	}
	return all
}

// A Machine knows its nodes. It does not change.
type Machine struct {
	distances map[Node][]int // to the nodes in the order of order
	order     map[Node]int
}

// Load reads what nodes there are. It returns nil for a machine of one node, or one that
// says nothing.
func Load(sys fs.FS) *Machine {
	const dir = "devices/system/node"
	entries, err := fs.ReadDir(sys, dir)
	if err != nil {
		return nil
	}
	m := &Machine{map[Node][]int{}, map[Node]int{}}
	var nodes []int
	for id := range 1 << 10 { // Linux's most; distances are in the order of the numbers
		name := fmt.Sprintf("node%d", id)
		for _, e := range entries {
			if e.Name() == name {
				nodes = append(nodes, id)
			}
		}
	}
	for i, id := range nodes {
		m.order[Node(id+1)] = i
		b, err := fs.ReadFile(sys, path.Join(dir, fmt.Sprintf("node%d", id), "distance"))
		if err != nil {
			return nil
		}
		for _, word := range strings.Fields(string(b)) {
			d, err := strconv.Atoi(word)
			if err != nil {
				return nil
			}
			m.distances[Node(id+1)] = append(m.distances[Node(id+1)], d)
		}
	}
	if len(nodes) < 2 {
		return nil
	}
	return m
}

// Distance is how far a node is from another one: Local where either is not known, as
// Linux has it.
func (m *Machine) Distance(from, to Node) int {
	if m == nil || from == 0 || to == 0 {
		return Local
	}
	row, i := m.distances[from], 0
	i, known := m.order[to]
	switch {
	case row == nil || !known:
		return Local
	case i >= len(row):
		return unreachable
	}
	return row[i]
}

// Here is the node of the processor on which the caller runs.
func Here() Node {
	var cpu, node uint32
	if _, _, errno := unix.RawSyscall(unix.SYS_GETCPU, uintptr(unsafe.Pointer(&cpu)), uintptr(unsafe.Pointer(&node)), 0); errno != 0 {
		return 0
	}
	return Node(node + 1)
}
